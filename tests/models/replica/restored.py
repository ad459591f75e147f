"""ZooKeeper that was put back to an earlier copy: what clients had read by then, and who is elected after that."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from kafka2011.replica.state import to_be_elected
from tests.models.replica.referee import BrokenPromiseError

if TYPE_CHECKING:
    from kafka2011.replica.state import Replica
    from tests.models.replica.process import Disk, Process
    from tests.models.replica.referee import Referee
    from tests.models.replica.registry import Nodes


class Restored:
    """What was readable when ZooKeeper went back, which must stay whole on a disk until an operator has chosen."""

    def __init__(self, referee: Referee) -> None:
        self._then = deepcopy(referee)
        self._then.deleted = referee.deleted
        self.has_branched = False

    def branches(self, referee: Referee, nodes: Nodes, leader: Process) -> None:
        """Hear that one leads that lacks what was readable: only while nobody who has seen more is a member."""
        if to_be_elected(nodes.state, nodes.version, nodes.seen) is not None:
            raise BrokenPromiseError(f"{leader.name} leads from an old state, and a member has seen a newer one")
        if not self.has_branched:
            self._then = deepcopy(referee)
        self.has_branched = True

    def has_all(self, disk: Disk) -> bool:
        """Say whether a disk has what was readable then."""
        has = {where: log.copy_of_disk() for where, log in disk.logs.items()}
        try:
            self._then.compare(has, "a disk")
        except BrokenPromiseError:
            return False
        return True

    def check(self, processes: list[Process]) -> None:
        """See that a disk has what was readable then."""
        if not any(self.has_all(process.disk) for process in processes):
            raise BrokenPromiseError("no disk has what clients had read when ZooKeeper went back")

    def elected(self, now: Nodes, processes: list[Process]) -> tuple[Replica, str] | None:
        """Return whom an operator elects when all are there, and how that is called; None if nobody is needed."""
        seen = {process.me: process.known.newest_seen for process in processes}
        proposal = to_be_elected(now.state, now.version, seen)
        if proposal is None:
            return None
        best = proposal.replica
        if leaders := [process.name for process in processes if process.term is not None]:
            raise BrokenPromiseError(f"{leaders} lead, and {best} has seen a newer state")
        has_all = self.has_all(next(process.disk for process in processes if process.me == best))
        if not has_all and not proposal.may_lack:
            raise BrokenPromiseError(f"{best} is proposed, and lacks something that was readable")
        return best, "an operator elects" if has_all else "an operator elects one that lacks something"
