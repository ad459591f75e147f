"""A planted defect, and a test with fixtures that must notice it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from tests.planted.planting import planted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.planted.patches import Defect


def assert_noticed(defect: Defect, check: Callable[..., None], request: pytest.FixtureRequest) -> None:
    """Run a test with a defect; it must fail. Its parameters are fixtures, or in the table `with` of the defect."""
    given = defect.shows.get("with", {})
    with planted(defect):
        arguments = {
            name: given[name] if name in given else request.getfixturevalue(name)
            for name in inspect.signature(check).parameters
        }
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check(**arguments)
