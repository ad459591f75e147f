"""Logical types: which annotations of a schema count, and which Avro says to ignore.

A logical type says what the values of another type mean: a long is a time, bytes are a decimal. Avro's specification
says that readers ignore an annotation that they do not know or that is invalid, and use the type below it.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, TypeGuard

from kafka2011.events.schema_walk import places

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

NUMBERS_AND_TEXTS = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "uuid": "string",
}
"""Logical types whose decoded values stay numbers and texts, with the type that each one needs."""

_DECIMALS = ("bytes", "fixed")


def logical_type(part: Any) -> str | None:
    """Return the logical type of a type, as JSON or parsed; None if it has none or an ignored one."""
    if not isinstance(part, dict) or "logicalType" not in part:
        return None
    return None if why_ignored(part) else str(part["logicalType"])


def why_ignored(part: Mapping[str, Any]) -> str | None:
    """Return the reason why the logical type of a type is ignored; None if it counts or there is none."""
    if "logicalType" not in part:
        return None
    name, kind = part["logicalType"], part["type"]
    if name == "decimal":
        return _why_no_decimal(part)
    if not isinstance(name, str) or name not in NUMBERS_AND_TEXTS:
        return f"{name} is unknown, so values are of type {kind}"
    if kind != NUMBERS_AND_TEXTS[name]:
        return f"{name} needs type {NUMBERS_AND_TEXTS[name]} and has {kind}"
    return None


def ignored_logical_types(document: Any) -> list[str]:
    """Return a line for each logical type of a schema's JSON that is ignored, with its place and the reason."""
    lines = []
    for place, part in places(document):
        if isinstance(part, dict) and (why := why_ignored(part)):
            lines.append(f"{place}: the logical type is ignored: {why}")
    return lines


def log_ignored(document: Any, topic: str, level: int) -> None:
    """Log each logical type of a schema's JSON that is ignored: as a warning when a topic gets the schema."""
    if logger.isEnabledFor(level):
        for line in ignored_logical_types(document):
            logger.log(level, "Topic %s: field %s", topic, line)


def _why_no_decimal(part: Mapping[str, Any]) -> str | None:
    """Return the reason why a decimal is invalid; None if it is valid."""
    kind, precision, scale = part["type"], part.get("precision"), part.get("scale", 0)
    if kind not in _DECIMALS:
        return f"decimal needs type bytes or fixed and has {kind}"
    if not _is_whole(precision) or precision <= 0:
        return f"decimal needs a precision above 0 and has {precision}, so values are of type {kind}"
    if not _is_whole(scale) or not 0 <= scale <= precision:
        return f"decimal needs a scale of 0 to {precision} and has {scale}, so values are of type {kind}"
    if kind == "fixed" and precision > _digits_in(part["size"]):
        return f"a decimal of precision {precision} does not fit into {part['size']} bytes, so values are of type fixed"
    return None


def _digits_in(size_bytes: int) -> int:
    """Return the number of decimal digits that fit into bytes, one bit of which is the sign."""
    return math.floor(math.log10(2) * (8 * size_bytes - 1)) if size_bytes > 0 else 0


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
