"""Lets the tests of one group import what they share: `in_memory_group`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
