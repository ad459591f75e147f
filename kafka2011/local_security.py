"""Closed doors for a cluster on this machine: certificates, a password, and who may what, all in one directory."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.certificates import Authority
from zk.local_zookeeper import ServerTls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
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
# Who may do what, by topic; it is read again when it changes. "*" is everybody who has a certificate of this cluster's.
[produce]
".*" = ["*"]

[consume]
".*" = ["*"]
"""


@dataclass(frozen=True, slots=True)
class LocalSecurity:
    """What the processes of a cluster need, and the file that clients name."""

    zookeeper: ServerTls
    properties: Mapping[str, str]
    """Settings of every broker."""
    security: Path


def secure(directory: Path, hosts: Iterable[str]) -> LocalSecurity:
    """Make what is missing in `directory`: an authority, certificates for these hosts, and the files that name them.

    Clients without a certificate are refused. Raises KafkaError without OpenSSL.
    """
    authority = Authority(directory)
    names = list(hosts)
    zookeeper, broker = authority.issue("zookeeper", names), authority.issue("broker", names)
    security, allow = directory / "security.toml", directory / "allow.toml"
    if not security.exists():
        client = authority.issue("client")
        security.touch(mode=0o600)
        security.write_text(
            _SECURITY.format(
                path=security,
                password=secrets.token_urlsafe(24),
                ca=authority.ca,
                certificate=client.certificate,
                key=client.key,
            )
        )
    if not allow.exists():
        allow.write_text(_ALLOW)
    return LocalSecurity(
        ServerTls(zookeeper.key_and_certificate, authority.ca),
        {
            "tls.only": "true",
            "tls.certificate": str(broker.certificate),
            "tls.key": str(broker.key),
            "tls.ca": str(authority.ca),
            "tls.client.required": "true",
            "allow.file": str(allow),
        },
        security,
    )
