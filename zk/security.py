"""Reaching a ZooKeeper and brokers that are not open to everybody: who one is, what others may do, and TLS.

All of it is in a file, which `zk.connect` names behind its chroot, as a URL would:

    zk1:2281,zk2:2281/kafka?security=/etc/kafka2011/security.toml

So the secret is in no command line, log or process list, and two clusters may have different ones.
"""

from __future__ import annotations

import logging
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from zk.errors import ZkError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

_PARAMETER = "security"
_OTHERS_READ = 0o077
_PLACES = ("zookeeper", "brokers")


@dataclass(frozen=True, slots=True)
class Tls:
    """How a client knows whom it meets, and proves itself. Paths are those of PEM files."""

    ca: str = ""
    """Who signs the servers' certificates; without it, those whom this machine trusts."""
    certificate: str = ""
    key: str = ""
    check_hostname: bool = True

    def context(self, module: Any) -> ssl.SSLContext:
        """Return the TLS context of the standard library's ssl, or gevent's. Raises ZkError."""
        try:
            context: ssl.SSLContext = module.SSLContext(module.PROTOCOL_TLS_CLIENT)
            context.minimum_version = module.TLSVersion.TLSv1_2
            context.check_hostname = self.check_hostname
            if self.ca:
                context.load_verify_locations(self.ca)
            else:
                context.load_default_certs()
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:  # an SSLError is one
            raise ZkError(f"TLS with ca {self.ca!r}, certificate {self.certificate!r}: {error}") from error
        return context


@dataclass(frozen=True, slots=True)
class Security:
    """What a security file says: who we are to ZooKeeper, and how we meet its servers and the brokers."""

    path: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    others_may_read: bool = False
    """Whether those without the password may look at what we make. Never may they change it."""
    zookeeper: Tls | None = None
    brokers: Tls | None = None

    @classmethod
    def read(cls, path: Path) -> Security:
        """Read a file of TOML. Raises ZkError, which quotes no value."""
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            mode = path.stat().st_mode
        except OSError as error:
            raise ZkError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise ZkError(f"{path} is not TOML: {error}") from error
        where = document.pop(_PLACES[0], {}), document.pop(_PLACES[1], {})
        given = _checked(path, "", {"user": str, "password": str, "others_may_read": bool}, document)
        zookeeper, brokers = (_tls(path, name, table) for name, table in zip(_PLACES, where, strict=True))
        security = cls(str(path), **given, zookeeper=zookeeper, brokers=brokers)
        if bool(security.user) != bool(security.password) or ":" in security.user:
            raise ZkError(f"{path}: a user, without a colon, and a password belong together")
        if not (security.user or zookeeper or brokers):
            raise ZkError(f"{path}: it has neither a user nor tls = true for zookeeper or brokers")
        if security.password and mode & _OTHERS_READ:
            logger.warning("%s holds a password, and others on this machine may read it: chmod 600", path)
        if security.user and zookeeper is None:
            logger.warning("%s: without [zookeeper] tls = true the password is sent in the clear", path)
        return security


def _tls(path: Path, name: str, table: object) -> Tls | None:
    """Read the table of zookeeper or brokers; None unless it says tls = true."""
    kinds = {"tls": bool, "ca": str, "certificate": str, "key": str, "check_hostname": bool}
    given = _checked(path, f"[{name}] ", kinds, table)
    if not given.pop("tls", False):
        if given:
            raise ZkError(f"{path}: [{name}] {', '.join(given)} is used with tls = true")
        return None
    tls = Tls(**given)
    if bool(tls.certificate) != bool(tls.key):
        raise ZkError(f"{path}: [{name}] a certificate and its key belong together")
    return tls


def _checked(path: Path, where: str, kinds: Mapping[str, type], table: object) -> dict[str, Any]:
    """Return what a table holds, if all names are known and all values of their kind. Raises ZkError."""
    if not isinstance(table, dict):
        raise ZkError(f"{path}: {where}must be a table")
    for name, value in table.items():
        if name not in kinds:
            raise ZkError(f"{path}: {where}unknown key {name}; allowed are {', '.join(kinds)}")
        if type(value) is not kinds[name]:
            raise ZkError(f"{path}: {where}{name} must be {'a text' if kinds[name] is str else 'true or false'}")
    return dict(table)


class ZkAddress(NamedTuple):
    """What a zk.connect says."""

    hosts: str
    chroot: str
    security: Security


def _check_order(hosts: str, chroot: str, path: str | None) -> None:
    """Raise ZkError if a chroot stands behind ?security=FILE, where it is a part of the file's name."""
    if path is None:
        return
    file = next((parent for parent in Path(path).parents if parent.is_file()), None)
    if file is not None:
        late = "/".join(part.strip("/") for part in (chroot, path.removeprefix(str(file))) if part.strip("/"))
        raise ZkError(
            f"a chroot stands before the ? in zk.connect: write {hosts}/{late}?{_PARAMETER}={file} (what stands behind"
            f" {file} is taken for a part of its name)"
        )


def read_address(zk_connect: str) -> ZkAddress:
    """Read `host:port,host:port/chroot?security=FILE`, and the file. Raises ZkError."""
    places, question, parameters = zk_connect.partition("?")
    hosts, _, chroot = places.partition("/")
    hosts = ",".join(host.strip() for host in hosts.split(","))
    given = dict(parse_qsl(parameters, keep_blank_values=True)) if question else {}
    if set(given) - {_PARAMETER} or (question and not given.get(_PARAMETER)):
        raise ZkError(f"zk.connect {zk_connect!r}: only security=FILE may follow the ?")
    path = given.get(_PARAMETER)
    _check_order(hosts, chroot, path)
    return ZkAddress(
        hosts,
        f"/{chroot.strip('/')}" if chroot.strip("/") else "",
        Security() if path is None else Security.read(Path(path)),
    )
