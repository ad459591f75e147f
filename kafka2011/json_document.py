"""JSON objects that this package has written: read whole, or refused with an error that says what is wrong.

Pure. A document that is read back may be from another version, damaged, or something else altogether.
"""

from __future__ import annotations

import json
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
