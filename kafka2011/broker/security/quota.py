"""How many bytes a second principals may produce and fetch, by a file that is read again when it changes.

The protocol of 0.7 cannot say no, so who is over its quota waits: for the next bytes to be read, or for its answer. No
sockets, no event loop and no timer here: what must be waited for, and for how long, is all that is known.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.broker.notices import Notices
from kafka2011.broker.security.rules_file import RulesFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from zk.clock import Clock

logger = logging.getLogger(__name__)

PRODUCE = "produce"
FETCH = "fetch"
EVERYBODY_ELSE = "*"
_REMEMBERED = 10_000
"""With more principals than this, those that owe nothing are forgotten."""


class Bucket:
    """Bytes at a rate, of which those of one second may come at once.

    Bytes are taken at any time and paid for as time passes. Whoever takes some has a mark, how many had been taken by
    then, and waits until as many are paid for: so those who share a bucket go in the order in which they took. A rate
    of 0 is none: nobody waits.
    """

    __slots__ = ("_now_s", "_paid_bytes", "bytes_per_s", "taken_bytes")

    def __init__(self, bytes_per_s: int, now_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.taken_bytes = 0
        self._paid_bytes = float(bytes_per_s)
        self._now_s = now_s

    def take(self, size: int, now_s: float) -> None:
        """Take bytes, which are to be paid for from now on."""
        self._pay(now_s)
        self.taken_bytes += size

    def give_back(self, size: int) -> None:
        """Take them for paid: they were not used."""
        self._paid_bytes += size

    def wait_s(self, mark: int, now_s: float) -> float:
        """Return how long it takes until so many bytes are paid for, 0 if they are."""
        self._pay(now_s)
        return max(0.0, (mark - self._paid_bytes) / self.bytes_per_s) if self.bytes_per_s else 0.0

    def owes_nothing(self, now_s: float) -> bool:
        """Say whether all is paid for, and as much may come at once as in the beginning."""
        self._pay(now_s)
        return self._paid_bytes >= self.taken_bytes + self.bytes_per_s

    def _pay(self, now_s: float) -> None:
        most_bytes = self.taken_bytes + self.bytes_per_s
        self._paid_bytes = min(most_bytes, self._paid_bytes + (now_s - self._now_s) * self.bytes_per_s)
        self._now_s = now_s


class Toll:
    """What somebody has taken of a quota, and waits for: `wait_s` says how long still."""

    __slots__ = ("_bucket", "_mark", "_quotas", "_size", "what")

    def __init__(self, quotas: Quotas, what: str, bucket: Bucket, mark: int, size: int) -> None:
        self._quotas = quotas
        self.what = what
        self._bucket = bucket
        self._mark = mark
        self._size = size

    def wait_s(self) -> float:
        """Return how long it must wait by what is known now: the file may change, others may give back."""
        return self._bucket.wait_s(self._mark, self._quotas.look())

    def give_back(self) -> None:
        """Take back what was taken: it was not sent."""
        self._bucket.give_back(self._size)

    @property
    def bytes_per_s(self) -> int:
        """The quota."""
        return self._bucket.bytes_per_s


class Quotas:
    """What principals may produce and fetch, as a file of TOML says: bytes a second.

        [produce]
        "front-ends" = 20_000_000
        [fetch]
        "reports" = 50_000_000
        "*" = 5_000_000

    "*" is what everybody else may, each for himself; who is in no line may all. Raises ConfigError, see RulesFile.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._file = RulesFile("quota.file", path, (PRODUCE, FETCH), _rates_of, clock)
        self.buckets: dict[tuple[str, str], Bucket] = {}
        self.notices = Notices(logger, clock)

    def take(self, what: str, principal: str, size: int) -> Bucket | None:
        """Take bytes for somebody to PRODUCE or FETCH, and return of what; None without a quota."""
        now_s = self.look()
        bucket = self.buckets.get((what, principal))
        if bucket is None:
            rate = self._rate(what, principal)
            if not rate:
                return None
            self._make_room(now_s)
            bucket = self.buckets[what, principal] = Bucket(rate, now_s)
        bucket.take(size, now_s)
        return bucket

    def look(self) -> float:
        """See whether the file has changed, which counts also for those who wait by now; return the time."""
        now_s = self._clock.monotonic_s()
        if self._file.has_changed():
            for (what, principal), bucket in list(self.buckets.items()):
                bucket.wait_s(0, now_s)  # until now it is the old rate that counts
                bucket.bytes_per_s = self._rate(what, principal)
                if not bucket.bytes_per_s:
                    del self.buckets[what, principal]
        return now_s

    def _rate(self, what: str, principal: str) -> int:
        rates = self._file.rules[what]
        return rates.get(principal) or rates.get(EVERYBODY_ELSE, 0)

    def _make_room(self, now_s: float) -> None:
        if len(self.buckets) >= _REMEMBERED:
            self.buckets = {key: bucket for key, bucket in self.buckets.items() if not bucket.owes_nothing(now_s)}


class ClientQuota:
    """What one connection takes of its principal's quotas, which all that are its principal's share.

    `unpaid` is what it must wait for before more of its bytes are read.
    """

    __slots__ = ("_name", "_principal", "_quotas", "unpaid")

    def __init__(self, quotas: Quotas, principal: str, name: str) -> None:
        self._quotas = quotas
        self._principal = principal
        self._name = name
        self.unpaid: Toll | None = None

    def produce(self, size: int) -> None:
        """Note so many bytes of produces. What comes after them is read once they are paid for."""
        bucket = self._quotas.take(PRODUCE, self._principal, size)
        if bucket is not None:
            self.unpaid = Toll(self._quotas, PRODUCE, bucket, bucket.taken_bytes, size)

    def fetch(self, sizes: Iterable[int]) -> Toll | None:
        """Take the bytes of an answer, which may go once those before it are paid for: so each comes, however large."""
        size = sum(sizes)
        bucket = self._quotas.take(FETCH, self._principal, size) if size else None
        return None if bucket is None else Toll(self._quotas, FETCH, bucket, bucket.taken_bytes - size, size)

    def note_wait(self, toll: Toll, wait_s: float) -> None:
        """Log who waits, for what and how long, once a minute for each principal."""
        self._quotas.notices.warn(
            (toll.what, self._principal),
            "%s at %s is over its quota for %s, %d bytes a second, and waits %.2f s (logged once a minute)",
            *(self._principal, self._name, toll.what, toll.bytes_per_s, wait_s),
        )


def _rates_of(what: str, table: dict[str, object]) -> dict[str, int]:
    rates = {}
    for principal, rate in table.items():
        if isinstance(rate, bool) or not isinstance(rate, int) or rate < 1:
            raise ValueError(f'[{what}] "{principal}" must be a whole number of bytes a second, at least 1')
        rates[principal] = rate
    return rates
