"""The place where a load or a redrive is at work, for the log line of a failure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class WorkPlace:
    """Holds what is known so far: the number of the topic's newest schema, and of the commit that is being made."""

    schema: int | None = None
    commit: int | None = None

    def __str__(self) -> str:
        """Return both in words, empty before either is known."""
        known = (("newest schema", self.schema), ("commit", self.commit))
        return ", ".join(f"{name} {number}" for name, number in known if number is not None)
