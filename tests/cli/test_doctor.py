"""`kafka2011 doctor`: checks that fail themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.admin.doctor.checkup import Finding
from kafka2011.cli.doctor import checked
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

FOUND = Finding("topic views", "has no broker", "start one")


def check_that_fails(error: BaseException) -> Iterator[Finding]:
    """Find one thing, and fail."""
    yield FOUND
    raise error


@pytest.mark.parametrize(
    ("error", "text"),
    [(KafkaError("the log is damaged"), "the log is damaged"), (KeyError("size"), "internal error: KeyError: 'size'")],
    ids=["own", "unexpected"],
)
def test_a_check_that_fails_is_a_finding(error: BaseException, text: str) -> None:
    """What it has found before is kept."""
    found, failed = checked("tables", check_that_fails(error))
    assert found == FOUND
    assert failed[:2] == ("tables", f"could not be checked: {text}")


def test_an_interrupt_ends_the_checks() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(checked("tables", check_that_fails(KeyboardInterrupt())))
