"""What befalls a tier's tables and logs: operators, retention, a lost ZooKeeper, a second table of the same name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.models.audit.clusters import BROKERS, VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models.audit.world import World


class TableTroubles:
    """Lets something befall the tables now and then, drawn from chance of its own; in many walks nothing does."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = chance = world.table_chance
        loaders = world.loaders
        kinds: list[tuple[float, Callable[[], object]]] = [
            (0.004, lambda: loaders.table.roll_back(chance)),
            (0.004, lambda: loaders.table.put_back(chance)),
            (0.003, lambda: loaders.table.delete_rows(chance)),
            (0.002, lambda: loaders.table.swap(chance, world.loader_ms(), loaders.attempt())),
            (0.003, self.load_uncounted),
            (0.02, self.remove_segments),
            (0.004, self.lose_claim),
            (0.003, self.begin_rival),
        ]
        is_rough = chance.random() < 0.6
        self._kinds = [kind for kind in kinds if chance.random() < 0.4] if is_rough else []
        self._kinds.append((0.05, lambda: loaders.table.settle(chance, world.loader_ms(), loaders.attempt())))
        self._kinds.append((0.02, self.compact))

    def happen(self) -> None:
        """Let something happen, or not."""
        for likelihood, kind in self._kinds:
            if self._chance.random() < likelihood:
                kind()

    def compact(self) -> None:
        """Write an entry that changes no rows."""
        self._world.loaders.table.compact()

    def load_uncounted(self) -> None:
        """Load all that is new without counting, as a load without `--audit` does."""
        world, table = self._world, self._world.loaders.table
        newest = table.history().present()
        offsets = dict(newest.offsets) if newest else {}
        rows = set[int]()
        for where, each in world.ends(world.offline, VIEWS).items():
            if each is not None:
                start = max(offsets.get(where, 0), world.offline.first.get(where.broker_id, 0))
                entries = world.offline.logs[VIEWS, where.broker_id][start : each[1]]
                rows.update(entry.payload.number for entry in entries)
                offsets[where] = each[1]
        if rows:
            through_ms = newest.complete_through_ms if newest else None
            commit = table.next_commit(newest, offsets, rows, world.loader_ms(), world.loaders.attempt(), through_ms)
            table.is_damaged = True
            table.commit(replace(commit, extra=dict(newest.extra) if newest else {}), rows)

    def remove_segments(self) -> None:
        """Remove the oldest messages of a log, loaded or not."""
        world, broker = self._world, self._chance.choice(BROKERS)
        log = world.offline.logs[VIEWS, broker]
        first = world.offline.first.get(broker, 0)
        world.offline.first[broker] = self._chance.randint(first, max(first, len(log)))
        world.loaders.table.is_damaged = True

    def lose_claim(self) -> None:
        """Lose what ZooKeeper knows of the tier, or put an older copy of it back."""
        self._world.loaders.claims.go_back(self._chance)

    def begin_rival(self) -> None:
        """Begin to load another table as the same tier, declared as a replacement or not."""
        loaders = self._world.loaders
        if len(loaders.tables) > 1:
            return
        before, is_declared = loaders.table, self._chance.random() < 0.5
        loaders.begin_rival(is_declared=is_declared)
        if is_declared and self._chance.random() < 0.5:
            loaders.stop(before)
