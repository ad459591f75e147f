"""Where the bytes of a running Kafka 0.7.2 lie, if they do."""

from __future__ import annotations

from pathlib import Path

CAPTURED = Path(__file__).parents[3] / "shared" / "vectors"
