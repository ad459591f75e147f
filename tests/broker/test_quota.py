"""Quotas: how long somebody waits, by a clock that is moved by hand."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from kafka2011.broker.notices import INTERVAL_S, Notices
from kafka2011.broker.security import quota as quota_module
from kafka2011.broker.security.file_changes import LOOK_INTERVAL_S
from kafka2011.broker.security.quota import FETCH, PRODUCE, Bucket, ClientQuota, Quotas, Toll
from kafka2011.errors import ConfigError
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

RATES = """
[produce]
"front" = 1000
[fetch]
"reports" = 500
"*" = 100
"""


def rates(directory: Path, text: str = RATES) -> Path:
    """Write a file of quotas."""
    path = directory / "quota.toml"
    path.write_text(text)
    return path


def toll_of(quotas: Quotas, what: str, principal: str, size: int) -> Toll | None:
    """Take bytes as a new connection of somebody's does, and return what it waits for."""
    client = ClientQuota(quotas, principal, "host:1")
    if what == FETCH:
        return client.fetch([size])
    client.produce(size)
    return client.unpaid


def wait_s(quotas: Quotas, what: str, principal: str, size: int) -> float:
    """Return how long it waits; -1 if it has no quota."""
    toll = toll_of(quotas, what, principal, size)
    return -1.0 if toll is None else toll.wait_s()


def test_one_second_of_bytes_may_come_at_once() -> None:
    """What is more is paid for at the rate; after a rest there is one second's worth again, and no more."""
    bucket = Bucket(1000, 5.0)
    bucket.take(1000, 5.0)
    assert bucket.wait_s(bucket.taken_bytes, 5.0) == 0
    bucket.take(500, 5.0)
    assert bucket.wait_s(bucket.taken_bytes, 5.0) == pytest.approx(0.5)
    assert bucket.wait_s(bucket.taken_bytes, 5.25) == pytest.approx(0.25)
    assert not bucket.owes_nothing(5.5)
    assert bucket.wait_s(bucket.taken_bytes, 5.5) == 0
    assert bucket.owes_nothing(100.0)
    bucket.take(1500, 100.0)
    assert bucket.wait_s(bucket.taken_bytes, 100.0) == pytest.approx(0.5)


def test_in_the_long_run_the_rate_is_kept() -> None:
    """By one who waits each time, whatever he takes."""
    bucket, now_s = Bucket(1000, 0.0), 0.0
    for number in range(200):
        bucket.take(number * 7 % 900 + 1, now_s)
        now_s += bucket.wait_s(bucket.taken_bytes, now_s)
    assert bucket.taken_bytes / (now_s + 1) == pytest.approx(1000)


def test_those_who_share_a_bucket_go_in_the_order_in_which_they_took(tmp_path: Path) -> None:
    """Each waits for what was taken before him; the first answer goes at once, however large it is."""
    clock = ManualClock()
    quotas = Quotas(rates(tmp_path), clock)
    tolls = [toll_of(quotas, FETCH, "reports", 5000) for _ in range(3)]
    assert [toll.wait_s() for toll in tolls if toll] == pytest.approx([0, 9, 19])
    clock.sleep(9)
    assert [toll.wait_s() for toll in tolls if toll] == pytest.approx([0, 0, 10])


def test_what_is_given_back_is_not_waited_for(tmp_path: Path) -> None:
    """By those behind one who went."""
    quotas = Quotas(rates(tmp_path), ManualClock())
    first, gone, last = (toll_of(quotas, FETCH, "reports", 5000) for _ in range(3))
    assert first is not None
    assert gone is not None
    assert last is not None
    gone.give_back()
    assert last.wait_s() == pytest.approx(9)


def test_who_is_not_named_has_a_quota_of_his_own(tmp_path: Path) -> None:
    """If there is one for everybody; else none. Produce and fetch are apart."""
    quotas = Quotas(rates(tmp_path), ManualClock())
    for principal in ("one", "another"):
        assert wait_s(quotas, FETCH, principal, 1100) == 0
        assert wait_s(quotas, FETCH, principal, 1) == pytest.approx(10)
    assert wait_s(quotas, PRODUCE, "one", 10**9) == -1
    assert wait_s(quotas, PRODUCE, "front", 3000) == pytest.approx(2)
    assert wait_s(quotas, FETCH, "front", 1) == 0


def test_an_answer_without_messages_waits_for_nothing(tmp_path: Path) -> None:
    """An empty fetch, offsets, and the answer to a barrier."""
    quotas = Quotas(rates(tmp_path), ManualClock())
    toll_of(quotas, FETCH, "one", 10_000)
    assert ClientQuota(quotas, "one", "host:1").fetch([]) is None


def test_another_file_counts_for_those_who_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Within a second: a higher quota, then none; and one that makes no sense leaves the old one."""
    clock = ManualClock()
    quotas = Quotas(rates(tmp_path), clock)
    toll = toll_of(quotas, PRODUCE, "front", 41_000)
    assert toll is not None
    assert toll.wait_s() == pytest.approx(40)
    rates(tmp_path, '[produce]\n"front" = 2000\n')
    clock.sleep(LOOK_INTERVAL_S)
    assert toll.wait_s() == pytest.approx((40 - LOOK_INTERVAL_S) / 2)
    assert toll.bytes_per_s == 2000
    rates(tmp_path, "[produce]\nfront = 'much'\n")
    clock.sleep(LOOK_INTERVAL_S)
    assert toll.wait_s() > 10
    assert "the old rules stay" in caplog.text
    rates(tmp_path, "")
    clock.sleep(LOOK_INTERVAL_S)
    assert toll.wait_s() == 0
    assert wait_s(quotas, PRODUCE, "front", 41_000) == -1


def test_those_who_owe_nothing_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there are very many; those who owe something are not."""
    monkeypatch.setattr(quota_module, "_REMEMBERED", 3)
    clock = ManualClock()
    quotas = Quotas(rates(tmp_path), clock)
    wait_s(quotas, FETCH, "debtor", 10_000)
    for number in range(20):
        wait_s(quotas, FETCH, f"p{number}", 1)
        clock.sleep(1)
    assert len(quotas.buckets) <= 3
    assert wait_s(quotas, FETCH, "debtor", 1) == pytest.approx(79)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[produce", "quota.toml"),
        ("[consume]\n", "unknown section \\[consume\\]"),
        ("fetch = 1\n", "table"),
        ("[fetch]\nreports = 0\n", "reports"),
        ("[fetch]\nreports = true\n", "reports"),
        ("[fetch]\nreports = 1.5\n", "whole number"),
        ("[produce]\nfront = '1 MB'\n", "whole number"),
    ],
)
def test_quotas_that_make_no_sense_stop_a_start(tmp_path: Path, text: str, why: str) -> None:
    """With the file, and what is wrong in it."""
    with pytest.raises(ConfigError, match=why) as caught:
        Quotas(rates(tmp_path, text), ManualClock())
    assert "quota.file" in str(caught.value)


def test_a_line_of_the_log_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """For each thing; and who it is about may be anybody."""
    clock = ManualClock()
    notices = Notices(logging.getLogger("test"), clock)
    for _ in range(3):
        for who in ("a", "b"):
            notices.warn(who, "%s waits", who)
        clock.sleep(INTERVAL_S / 2)
    assert sorted(record.getMessage() for record in caplog.records) == ["a waits"] * 2 + ["b waits"] * 2
