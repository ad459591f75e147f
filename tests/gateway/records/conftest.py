"""Runs tests of records with the C code and without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.gateway.records import code
from kafka2011.message import runs, runs_python

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True, params=["C", "Python"])
def each_record_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a module's tests with each; messages of 0.7 are then read in the same."""
    if request.param == "C" and code.compiled is None:
        pytest.skip("no C code: scripts/setup.sh builds it where there is a compiler, KAFKA2011_PURE leaves it out")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "Python":
            patch.setattr(code, "compiled", None)
            patch.setattr(runs, "chosen", runs_python)
        yield
