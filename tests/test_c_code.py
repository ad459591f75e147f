"""Whether C code is found: it may be missing, broken, or not wanted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafka2011 import c_code

if TYPE_CHECKING:
    import pytest


class Broken:
    """Finds the C code, which then does not load."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "kafka2011.message._runs":
            raise ImportError("undefined symbol")


def test_code_that_does_not_load_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Python does the work without a word where C code was not built, or not asked for, and with a warning else."""
    monkeypatch.delenv(c_code.PURE_VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "kafka2011.message._runs", None)
    assert c_code.load("message._runs") is None
    assert not caplog.records
    monkeypatch.delitem(sys.modules, "kafka2011.message._runs")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert c_code.load("message._runs") is None
    assert "undefined symbol" in caplog.text
    caplog.clear()
    monkeypatch.setenv(c_code.PURE_VARIABLE, "1")
    assert c_code.load("message._runs") is None
    assert not caplog.records
