"""Closed doors for a cluster: certificates, a password, and who may what, in one directory, or in one a machine."""

from __future__ import annotations

import secrets
import shutil
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.certificates import Authority
from zk.local_zookeeper import ServerTls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_SECURITY = """\
# How to reach the cluster: name this file behind zk.connect, ?security={path}
user = "kafka"
password = "{password}"

[zookeeper]
tls = true
ca = "{ca}"

[brokers]
tls = true
ca = "{ca}"
certificate = "{certificate}"
key = "{key}"
"""
_ALLOW = """\
# Who may do what, by topic, and who may use which groups and change which topics through a gateway; it is read again
# when it changes. Deleting a topic loses its messages, so nobody may do that until there is a section [topics.delete].
# "*" is everybody who has a certificate of this cluster's.
[produce]
".*" = ["*"]

[consume]
".*" = ["*"]

[groups]
".*" = ["*"]

[topics.create]
".*" = ["*"]

[topics.grow]
".*" = ["*"]
"""


@dataclass(frozen=True, slots=True)
class LocalSecurity:
    """What the processes of a cluster need, and the file that clients name."""

    zookeeper: ServerTls
    properties: Mapping[str, str]
    """Settings of every broker."""
    security: Path


_ZOO_CFG = """\
# To be added to zoo.cfg in place of clientPort; the names in server.N are those of the certificates.
secureClientPort=2281
{tls}{servers}"""


def deploy(directory: Path, hosts: Sequence[str], target: Path, place: Path) -> list[Path]:
    """Make a directory for each machine in `target`, to be copied to `place` there; return them.

    Each has what its broker, its ZooKeeper server and the clients on it need, with certificates of its own that
    `directory`'s authority signs, and the lines for zoo.cfg and the broker's settings. The password and the rules are
    the same everywhere. Raises KafkaError without OpenSSL.
    """
    common = secure(directory, hosts)
    password = tomllib.loads(common.security.read_text())["password"]
    authority = Authority(directory)
    servers = "".join(f"server.{number}={host}:2888:3888\n" for number, host in enumerate(hosts, 1))
    made = []
    for host in hosts:
        machine = target / host
        machine.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, hosts_of in (("broker", [host]), ("zookeeper", [host]), ("client", [])):
            issued = authority.issue(name, hosts_of, machine)
            if name != "zookeeper":
                issued.key_and_certificate.unlink()
            else:
                issued.key.unlink()
                issued.certificate.unlink()
        shutil.copy(authority.ca, machine)
        shutil.copy(directory / "allow.toml", machine)
        tls = ServerTls(place / "zookeeper.both.pem", place / "ca.pem")
        (machine / "zoo.cfg.lines").write_text(
            _ZOO_CFG.format(tls=tls.settings() + tls.quorum_settings(), servers=servers)
        )
        properties = _properties(place / "broker.pem", place / "broker.key", place / "ca.pem", place / "allow.toml")
        (machine / "server.properties.lines").write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        _write_security(machine / "security.toml", place, password)
        made.append(machine)
    return made


def _write_security(path: Path, place: Path, password: str) -> None:
    """Write a security file that only its owner may read, for a client whose files are in `place`."""
    path.touch(mode=0o600)
    files = {"ca": place / "ca.pem", "certificate": place / "client.pem", "key": place / "client.key"}
    path.write_text(_SECURITY.format(path=place / path.name, password=password, **files))


def _properties(certificate: Path, key: Path, ca: Path, allow: Path) -> dict[str, str]:
    return {
        "tls.only": "true",
        "tls.certificate": str(certificate),
        "tls.key": str(key),
        "tls.ca": str(ca),
        "tls.client.required": "true",
        "allow.file": str(allow),
    }


def secure(directory: Path, hosts: Iterable[str]) -> LocalSecurity:
    """Make what is missing in `directory`: an authority, certificates for these hosts, and the files that name them.

    Clients without a certificate are refused. Raises KafkaError without OpenSSL.
    """
    authority = Authority(directory)
    names = list(hosts)
    zookeeper, broker = authority.issue("zookeeper", names), authority.issue("broker", names)
    security, allow = directory / "security.toml", directory / "allow.toml"
    if not security.exists():
        authority.issue("client")
        _write_security(security, directory, secrets.token_urlsafe(24))
    if not allow.exists():
        allow.write_text(_ALLOW)
    return LocalSecurity(
        ServerTls(zookeeper.key_and_certificate, authority.ca),
        _properties(broker.certificate, broker.key, authority.ca, allow),
        security,
    )
