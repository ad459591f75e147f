"""How deep the models search: the environment variable MODEL_DEPTH, `quick` (the default) or `deep` (minutes)."""

from __future__ import annotations

import os
from typing import TypeVar

_Choice = TypeVar("_Choice")

MODEL_DEPTH = os.environ.get("MODEL_DEPTH", "quick")
assert MODEL_DEPTH in {"quick", "deep"}, f"MODEL_DEPTH is {MODEL_DEPTH!r}, not quick or deep"

IS_DEEP = MODEL_DEPTH == "deep"


def by_depth(quick: _Choice, deep: _Choice) -> _Choice:
    """Return what the chosen depth asks for."""
    return deep if IS_DEEP else quick
