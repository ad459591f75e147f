"""`kafka2011 certificates`: the files of a closed cluster, and certificates for its clients."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from kafka2011.cli import app
from zk.security import Security

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_directory_gets_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Servers are good at their hosts; the password stays when it is called again, and clients are named as told."""
    place = tmp_path / "new"
    hosts = ("--host", "broker-1", "--host", "127.0.0.1", "--host", "127.0.0.1")
    assert app.main(["certificates", "--directory", str(place), *hosts]) == 0
    assert capsys.readouterr().out == f"{place}/security.toml\n"
    before = Security.read(place / "security.toml")
    assert before.brokers is not None
    names = ssl._ssl._test_decode_cert(str(place / "broker.pem"))["subjectAltName"]  # type: ignore[attr-defined]
    assert names == (("DNS", "broker-1"), ("IP Address", "127.0.0.1"))

    assert app.main(["certificates", "--directory", str(place), *hosts, "--client", "reports"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == f"{place}/reports.pem {place}/reports.key"
    subject = ssl._ssl._test_decode_cert(str(place / "reports.pem"))["subject"]  # type: ignore[attr-defined]
    assert subject == ((("commonName", "reports"),),)
    assert Security.read(place / "security.toml") == before


def test_nothing_asked_for_is_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a host and a client nothing is made; a name that is no host name is refused."""
    assert app.main(["certificates", "--directory", str(tmp_path / "new")]) == 2
    assert "give a --host" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert app.main(["certificates", "--directory", str(tmp_path), "--host", "a,b"]) == 1
    assert "'a,b' is no host name" in capsys.readouterr().err
