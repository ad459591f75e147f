"""What results say of themselves: which events they were derived from, and which days were derived anew.

Pure. It lies in the directory of the results, as `_derived.json`, and appears with them in one rename.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Self

from kafka2011.warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "_derived.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Derivation:
    """One derivation: results of everything up to `through`, of which the days in `days` are new.

    `through` says of each topic how far it was read, in words of the inputs of this `kind`; `after` the same of the
    derivation before, whose other days were taken over. It is empty when all days were derived.
    """

    number: int
    derived_at_ms: int
    kind: str
    settings: Mapping[str, Any]
    after: Mapping[str, Any]
    through: Mapping[str, Any]
    days: Mapping[str, tuple[date, ...]]
    """By name of a report."""

    def to_json(self) -> str:
        """Return it as JSON text."""
        fields = asdict(self)
        fields["days"] = {name: [day.isoformat() for day in days] for name, days in self.days.items()}
        return json.dumps({"version": VERSION, **fields}, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Read it. Raises WarehouseError, naming `where` it stood."""
        try:
            found = json.loads(text)
            if found["version"] != VERSION:
                raise WarehouseError(f"{where} has version {found['version']!r}; {VERSION} is understood")
            return cls(
                int(found["number"]),
                int(found["derived_at_ms"]),
                str(found["kind"]),
                found["settings"],
                dict(found["after"]),
                dict(found["through"]),
                {name: tuple(map(date.fromisoformat, days)) for name, days in found["days"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise WarehouseError(f"{where} is not what a derivation writes: {error!r}") from error
