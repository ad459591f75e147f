"""What happens to brokers, in a few steps each: the crashes and the faults are added to these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.log.log_settings import LogSettings
from kafka2011.message.compression import Codec
from tests.models.log.explorer import Scenario

if TYPE_CHECKING:
    from tests.models.log.life import Life

DAY_MS = 86_400_000


def begin(life: Life) -> None:
    """Start for the first time, make two logs, flush by count and by hand, stop cleanly and start again."""
    life.start()
    life.append("a", 20)
    life.append("b", 5, 5)
    life.append("a", 30, 1)
    life.flush("b")
    life.append("a", 40)
    life.stop()
    life.start()
    life.append("b", 15)


def roll(life: Life) -> None:
    """Roll full segments, with and without something flushed, and one that is too old."""
    life.start()
    life.append("a", 60)
    life.append("a", 10, 10)
    life.flush("a")
    life.append("a", 50)
    life.append("a", 7)
    life.flush_due(DAY_MS)
    life.append("a", 9)


def retain(life: Life) -> None:
    """Delete segments because there are too many, then all because of their age, and go on."""
    life.start()
    for _ in range(5):
        life.append("a", 60)
    life.retain()
    life.append("a", 33)
    life.retain(11 * DAY_MS)
    life.append("a", 12)
    life.flush("a")


def retain_empty(life: Life) -> None:
    """Delete all twice in a row, the second time with only an empty segment there, and stop between."""
    life.start()
    life.append("a", 60)
    life.append("a", 60)
    life.stop()
    life.start()
    life.retain(11 * DAY_MS)
    life.retain(11 * DAY_MS)
    life.stop()
    life.start()
    life.append("a", 5)


def compress(life: Life) -> None:
    """Append compressed sets."""
    life.start()
    life.append("a", 40, 40, 40, codec=Codec.GZIP)
    life.flush("a")
    life.append("a", 90, codec=Codec.GZIP)
    life.append("a", 5)


def kill(life: Life) -> None:
    """End processes without a stop, and go on."""
    life.start()
    life.append("a", 25)
    life.end()
    life.start()
    life.append("a", 60)
    life.append("b", 60)
    life.end()
    life.start()
    life.append("a", 4)
    life.flush("a")
    life.stop()
    life.start()


def meanwhile(life: Life) -> None:
    """Let others append while a flush, a roll or a deletion waits for the disk, and flush while an append does."""
    life.others_write = True
    life.start()
    life.append("a", 20)
    life.append("b", 20)
    life.flush("a")
    life.flush("b")
    life.append("a", 60)
    life.flush_due()
    life.append("a", 60)
    life.retain()
    life.stop()
    life.start()


def delete(life: Life) -> None:
    """Delete a topic that has grown, make it anew, delete that one too, and stop between."""
    life.start()
    life.append("a", 60)
    life.append("b", 20)
    life.append("a", 60)
    life.grow("a", 3)
    life.append("a", 5)
    life.delete("a")
    life.append("a", 7)
    life.flush("a")
    life.delete("a")
    life.append("b", 9)
    life.stop()
    life.start()
    life.append("a", 11)
    life.flush("a")
    life.delete("b")


def grow(life: Life) -> None:
    """Give topics more partitions, one before anything was written to it, and one twice."""
    life.start()
    life.grow("b", 2)
    life.append("a", 20)
    life.grow("a", 2)
    life.append("a", 20)
    life.end()
    life.start()
    life.grow("a", 5)
    life.append("b", 20)
    life.stop()
    life.start()


def follow(life: Life) -> None:
    """Append in a leader's segments, cut within one and across several, and go on with other messages."""
    life.start()
    life.append("a", 20, rolls=False)
    life.append("a", 30, rolls=False)
    life.let_read("a")
    life.append("a", 10, rolls=True)
    life.append("a", 70, rolls=False)
    life.cut("a", 110)
    life.append("a", 25, rolls=False)
    life.append("a", 40, rolls=True)
    life.flush("a")
    life.append("a", 8, rolls=True)
    life.cut("a", 75)
    life.append("a", 12, rolls=False)
    life.cut("a", 0)
    life.append("a", 33, rolls=False)
    life.flush("a")
    life.stop()
    life.start()
    life.append("a", 6, rolls=True)


def begin_anew(life: Life) -> None:
    """Begin empty where the leader's log starts, twice, and delete what the leader deletes."""
    life.start()
    life.append("a", 20, rolls=False)
    life.append("a", 60, rolls=True)
    life.begin_at("a", 500)
    life.append("a", 20, rolls=False)
    life.append("a", 9, rolls=True)
    life.delete_before("a", 530)
    life.begin_at("a", 300)
    life.append("a", 15, rolls=False)
    life.flush("a")


def repair(life: Life) -> None:
    """Replace closed segments by copies of them, roll for that, and go on."""
    life.start()
    life.append("a", 60)
    life.append("a", 20)
    life.flush("a")
    life.repair("a")
    life.append("a", 60)
    life.repair("a")
    life.stop()
    life.start()
    life.append("a", 7)
    life.flush("a")


SMALL = LogSettings(
    max_segment_bytes=50,
    flush_interval=3,
    retention_bytes=120,
    roll_ms=DAY_MS,
    retention_ms=10 * DAY_MS,
)

SCENARIOS = {
    scenario.__name__: Scenario(scenario.__name__, SMALL, scenario)
    for scenario in (begin, roll, retain, retain_empty, compress, kill, meanwhile, delete, grow, repair)
} | {
    scenario.__name__: Scenario(scenario.__name__, SMALL, scenario, is_replica=True)
    for scenario in (follow, begin_anew)
}
