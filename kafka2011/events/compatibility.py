"""How far a topic's new schemas must go with those before them, in the words of other registries."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kafka2011.events.errors import IncompatibleSchemaError
from kafka2011.events.schemas import other_unit, why_unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.events.schemas import EventSchema


class Compatibility(StrEnum):
    """What is asked of a topic's next schema: of the newest one's events, or `transitive`, of those of all."""

    NONE = "none"
    BACKWARD = "backward"
    BACKWARD_TRANSITIVE = "backward_transitive"
    FORWARD = "forward"
    FORWARD_TRANSITIVE = "forward_transitive"
    FULL = "full"
    FULL_TRANSITIVE = "full_transitive"

    @property
    def reads_older(self) -> bool:
        """Whether the new schema must read events of older ones."""
        return self.value.startswith(("backward", "full"))

    @property
    def is_read_by_older(self) -> bool:
        """Whether older schemas must read events of the new one."""
        return self.value.startswith(("forward", "full"))

    @property
    def is_transitive(self) -> bool:
        """Whether it is asked of all older schemas."""
        return self.value.endswith("_transitive")


DEFAULT = Compatibility.FULL_TRANSITIVE


def check_compatible(
    new: EventSchema, known: Sequence[tuple[int, EventSchema]], topic: str, level: Compatibility = DEFAULT
) -> None:
    """Check that a topic's new schema goes with its known ones, whose numbers rise, as far as the level asks.

    Raises IncompatibleSchemaError, which names the number of the first incompatible one.
    """
    if level is Compatibility.NONE:
        return
    hint = f" The topic's level is {level}; see `kafka2011 schemas compatibility {topic}`"
    for number, old in known if level.is_transitive else known[-1:]:
        if field := other_unit(new, old):
            raise IncompatibleSchemaError(
                f"topic {topic}: field {field} has another unit or scale than in schema {number}, so readers would take"
                f" the values of one for those of the other. Give the field another name.{hint}"
            )
        why = why_unreadable(new, old) if level.reads_older else None
        if why is not None:
            raise IncompatibleSchemaError(
                f"topic {topic}: with the new schema, events of schema {number} could not be read: {why}.{hint}"
            )
        why = why_unreadable(old, new) if level.is_read_by_older else None
        if why is not None:
            raise IncompatibleSchemaError(
                f"topic {topic}: with schema {number}, events of the new one could not be read: {why}.{hint}"
            )
