"""Finds the package's C code: modules that are built where there is a compiler, and whose work Python does elsewhere.

The environment variable KAFKA2011_PURE=1 chooses Python everywhere.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

logger = logging.getLogger(__name__)

PURE_VARIABLE = "KAFKA2011_PURE"


def load(name: str) -> Any:
    """Return a module of C code; None where it was not built, does not load, or is not wanted."""
    if os.environ.get(PURE_VARIABLE, "0") not in {"", "0"}:
        return None
    try:
        return importlib.import_module(f"kafka2011.{name}")
    except ModuleNotFoundError:  # built without a compiler
        return None
    except ImportError as error:
        logger.warning("the C code cannot be loaded, and Python code is used instead: %s", error)
        return None
