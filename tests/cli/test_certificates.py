"""`kafka2011 certificates`: the files of a closed cluster, and certificates for its clients."""

from __future__ import annotations

import ssl
import tomllib
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
    """Without a host and a client nothing is made; a name that is not a host name is refused."""
    assert app.main(["certificates", "--directory", str(tmp_path / "new")]) == 2
    assert "give at least one --host" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert app.main(["certificates", "--directory", str(tmp_path), "--host", "a,b"]) == 1
    assert "'a,b' is not a host name" in capsys.readouterr().err


def test_each_machine_gets_a_directory_that_can_be_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With certificates of its own, one password for all, paths of where it will be, and no key of the authority."""
    place, machines = tmp_path / "authority", tmp_path / "machines"
    called = ["certificates", "--directory", str(place), "--host", "zk-1", "--host", "10.0.0.2"]
    assert app.main([*called, "--deploy", str(machines), "--place", "/etc/k"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(machines / "zk-1"), str(machines / "10.0.0.2")]
    passwords = set()
    for name, kind in (("zk-1", "DNS"), ("10.0.0.2", "IP Address")):
        machine = machines / name
        assert sorted(path.name for path in machine.iterdir()) == [
            *("allow.toml", "broker.key", "broker.pem", "ca.pem", "client.key", "client.pem", "security.toml"),
            *("server.properties.lines", "zoo.cfg.lines", "zookeeper.both.pem"),
        ]
        names = ssl._ssl._test_decode_cert(str(machine / "broker.pem"))["subjectAltName"]  # type: ignore[attr-defined]
        assert names == ((kind, name),)
        text = (machine / "security.toml").read_text()
        assert 'certificate = "/etc/k/client.pem"' in text
        assert machine.joinpath("security.toml").stat().st_mode & 0o077 == 0
        passwords.add(tomllib.loads(text)["password"])
        zoo_cfg = (machine / "zoo.cfg.lines").read_text()
        assert "ssl.quorum.keyStore.location=/etc/k/zookeeper.both.pem\n" in zoo_cfg
        assert zoo_cfg.endswith("server.1=zk-1:2888:3888\nserver.2=10.0.0.2:2888:3888\n")
        assert "tls.key=/etc/k/broker.key\n" in (machine / "server.properties.lines").read_text()
    assert len(passwords) == 1
    assert app.main(["certificates", "--directory", str(place), "--client", "x", "--deploy", str(machines)]) == 2
