"""What the chapter of Spark's source makes of what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiments import spark
from paper_benchmarks.measuring.samples import Sample
from paper_benchmarks.workers.rows_from_memory import rows

if TYPE_CHECKING:
    from pathlib import Path


def measured() -> list[dict[str, Any]]:
    """Give 2 s and then 4 s to the source, 1 s each time to memory, 0.5 s to the cache."""
    walls = {spark.SOURCE: (2.0, 4.0), spark.MEMORY: (1.0, 1.0), spark.CACHE: (0.5, 0.5)}
    return spark.lines(
        {line: [Sample(amount=1000, wall_s=wall_s, cpu_s=1.0) for wall_s in several] for line, several in walls.items()}
    )


def test_a_ratio_is_that_of_one_round() -> None:
    assert measured()[1]["times"] == (0.25, 0.375, 0.5, 2)


def test_sparks_chapter_holds_the_source_against_both_memories(tmp_path: Path) -> None:
    text = spark.chapter({"lines": measured()}, tmp_path)
    assert "| our batch source | 375 (250 to 500) | 1,000 (1,000 to 1,000) | - |" in text
    assert "0.188 (0.125 to 0.250) |" in text
    assert "Our source reaches 0.38" in text
    assert (tmp_path / spark.PICTURE).exists()


def test_rows_in_memory_have_the_columns_of_the_source() -> None:
    found = rows(3, 200)
    assert [len(value) for value in found["value"].to_pylist()] == [200, 200, 200]
    assert found["offset"].to_pylist() == [0, 210, 420]
    assert found["nextOffset"].to_pylist() == [210, 420, 630]
