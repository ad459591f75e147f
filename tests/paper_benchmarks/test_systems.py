"""What the systems side by side are measured by: sessions, spans, and the table of tuned settings."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.clients.measure import Span
from paper_benchmarks.experiments.catalogue import document_of
from paper_benchmarks.experiments.experiment import Bench, Size
from paper_benchmarks.experiments.systems import SHIPPED, TUNED, Extent, extent_of, sessions, settings_of
from paper_benchmarks.systems.kinds import KINDS
from paper_benchmarks.systems.tuned import SETTINGS, tuned

if TYPE_CHECKING:
    from collections.abc import Iterator


def bench(size: Size, seconds: float = 10.0, rounds: int | None = None) -> Bench:
    return Bench(size, [], {}, Path(), print, seconds, rounds)


def test_long_runs_last_ten_seconds_and_two_gigabytes() -> None:
    """Or thirty seconds; a shorter time has fewer bytes. Bursts are so many messages."""
    long = extent_of(bench(Size.PAPER))
    assert (long.span, long.messages(500, 10_000_000)) == (Span(10.0, 30.0, 2.0), 10_000_000)
    assert extent_of(bench(Size.PAPER, 1.0)).messages(500, 10_000_000) == 1_000_000
    assert extent_of(bench(Size.SMALL)) == Extent(1.0, None)
    assert extent_of(bench(Size.SMALL)).messages(500, 10_000_000) == 500


def test_bursts_have_a_document_of_their_own() -> None:
    """A long run's is not overwritten by the ten minutes of `make bench`."""
    assert document_of("systems", Size.SMALL) == "bursts"
    assert document_of("systems", Size.PAPER) == "systems"
    assert document_of("latency", Size.SMALL) == "latency"


@pytest.mark.parametrize("name", KINDS)
def test_every_line_is_measured_once_with_each_settings(name: str) -> None:
    """As shipped, and tuned where the table says something of it; consumers read what one producer has sent."""
    kind = KINDS[name]
    for with_tuned in (False, True):
        planned = sessions([kind], with_tuned=with_tuned)
        produced = [(session.producer, session.variant) for session in planned]
        consumed = [each for session in planned for each in session.readers]
        for lines, found in ((kind.producers(), produced), (kind.consumers(), consumed)):
            wanted = [
                (line, variant)
                for line in lines
                for variant in (SHIPPED, TUNED)
                if variant == SHIPPED or (with_tuned and any(settings_of(kind, line, TUNED)))
            ]
            assert found == wanted
        assert len({str(session) for session in planned}) == len(planned)


def test_each_row_of_the_tuned_settings_is_of_a_line_and_was_tried() -> None:
    """With the value that ships first, and a reason."""
    for do, several in SETTINGS.items():
        for row in several:
            assert set(row.clients) <= {line.client for line in KINDS[row.kind].lines if line.do == do}
            assert row.value in row.tried
            assert row.why


def test_what_ships_best_is_not_set() -> None:
    """Lines whose best values are those that ship are measured once."""
    assert tuned("kafka2011", "consume", "batches") == ({}, {})
    of_client, of_server = tuned("kafka2011", "produce", "async")
    assert "batch.size" in of_client
    assert "log.flush.interval" in of_server
    assert tuned("kafka", "produce", "lists")[1] == {}


def test_a_server_gets_settings_only_where_there_are_some(tmp_path: Path) -> None:
    """Kinds without any in the table need not know what to do with them."""
    started: list[tuple[Any, ...]] = []

    @contextmanager
    def start(*arguments: Any) -> Iterator[Any]:
        started.append(arguments)
        yield None

    kind = type("Some", (), {"title": "some", "start": staticmethod(start)})
    for settings in ({}, {"a": 1}):
        with Bench(Size.PAPER, [], {}, tmp_path, lambda _: None).start(kind, settings):  # type: ignore[arg-type]
            pass
    assert started == [(tmp_path,), (tmp_path, {"a": 1})]
