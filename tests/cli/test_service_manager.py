"""Telling a service manager that a broker is ready."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from kafka2011.cli.service_manager import notify_ready

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("abstract", [False, True])
def test_who_waits_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    """One datagram says it, to a socket in the file system or to an abstract one."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waiting:
        waiting.bind(f"\0{path}" if abstract else path)
        waiting.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{path}" if abstract else path)
        notify_ready()
        assert waiting.recv(100) == b"READY=1"


def test_a_broker_serves_on_when_nobody_can_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A socket that is not there is named in the log, and is no reason to stop."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify_ready()
    assert str(tmp_path / "gone") in caplog.text
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify_ready()
