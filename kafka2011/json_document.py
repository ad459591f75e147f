"""JSON that every reader takes: objects that this package has written, read whole or refused; values, written.

Pure. A document that is read back may be from another version, damaged, or something else altogether.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, TypeVar

from zk.errors import MalformedNode

if TYPE_CHECKING:
    from collections.abc import Callable

_Made = TypeVar("_Made")


def read_document(
    text: str | bytes,
    make: Callable[[dict[str, Any]], _Made],
    error_class: Callable[[str], Exception],
    complaint: str,
    *,
    version: int | None = None,
) -> _Made:
    """Return what `make` makes of a document. Raises an error of the class, with the complaint and what is wrong.

    A document must have the `version`, unless that is None. `make` need not check its input: a missing key, or a
    value that is not a number or a partition, is reported as an error as well.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise error_class(f"{complaint}: it is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise error_class(f"{complaint}: it is {str(document)[:40]!r}, not an object")
    if document.get("version") != version:
        raise error_class(f"{complaint}: its version is {document.get('version')!r}, and {version} is understood")
    try:
        return make(document)
    except KeyError as error:
        raise error_class(f"{complaint}: it has no {error}") from error
    except (ValueError, TypeError, AttributeError, OverflowError, MalformedNode) as error:
        raise error_class(f"{complaint}: {type(error).__name__}: {error}") from error


def json_text(value: Any, default: Callable[[Any], Any] | None = None, indent: int | None = None) -> str:
    """Return a value as JSON text, with `default` for what JSON has not.

    Floats that are no numbers in JSON are the texts "NaN", "Infinity" and "-Infinity".
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=default, indent=indent)
    except ValueError:  # it has such a float
        return json.dumps(_with_texts(value), ensure_ascii=False, default=default, indent=indent)


def _with_texts(value: Any) -> Any:
    """Return a value with texts in place of floats that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _with_texts(inner) for key, inner in value.items()}
    return [_with_texts(inner) for inner in value] if isinstance(value, list | tuple) else value
