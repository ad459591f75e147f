"""Certificates for a cluster of one's own: an authority, and what it signs for brokers, ZooKeeper and clients.

For trying out, for tests, and for whoever has no authority yet. OpenSSL's command makes them, which comes with Debian's
Java. All files are PEM; keys are PKCS #8, which Java reads.
"""

from __future__ import annotations

import ipaddress
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["Authority", "Issued"]

_DEADLINE_S = 30.0
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True, slots=True)
class Issued:
    """Holds the files of one certificate."""

    certificate: Path
    key: Path
    key_and_certificate: Path
    """Both in one file, as ZooKeeper takes them."""


class Authority:
    """Signs certificates that are valid for `days` days.

    `directory` has its own certificate and key (ca.pem, ca.key), which are created if they are missing. Raises
    KafkaError.
    """

    def __init__(self, directory: Path, *, days: int = 825) -> None:
        self.directory = directory
        self.ca = directory / "ca.pem"
        self._key = directory / "ca.key"
        self._days = days
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.ca.exists():
            basics = ("basicConstraints=critical,CA:TRUE,pathlen:0", "keyUsage=critical,keyCertSign")
            self._run("kafka2011 authority", self._key, self.ca, basics)

    def issue(self, name: str, hosts: Iterable[str] = (), directory: Path | None = None) -> Issued:
        """Sign a certificate for a server or client called `name`, for `hosts`: host names and addresses.

        Returns its files, in `directory` or beside the authority's; those of that name are replaced. Raises KafkaError.
        """
        if not name or name == "ca" or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise KafkaError(f"{name!r} cannot name a certificate: letters, digits, - and _ can")
        directory = self.directory if directory is None else directory
        certificate, key = (directory / f"{name}.{end}" for end in ("pem", "key"))
        extensions = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=serverAuth,clientAuth"]
        names = ",".join(_alternative(host) for host in hosts)
        if names:
            extensions.append(f"subjectAltName={names}")
        self._run(name, key, certificate, extensions, "-CA", str(self.ca), "-CAkey", str(self._key))
        both = directory / f"{name}.both.pem"
        both.touch(mode=0o600)
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        return Issued(certificate, key, both)

    def _run(self, name: str, key: Path, certificate: Path, extensions: Iterable[str], *more: str) -> None:
        """Make a key and a certificate of it; OpenSSL lets only the owner read keys."""
        added = [word for extension in extensions for word in ("-addext", extension)]
        where = ("-keyout", str(key), "-out", str(certificate), "-days", str(self._days), "-subj", f"/CN={name}")
        command = ["openssl", "req", "-x509", "-config", "/dev/null", *_KEY, *where, *added, *more]
        try:
            subprocess.run(  # noqa: S603 (paths and names of ours)
                command, check=True, capture_output=True, text=True, timeout=_DEADLINE_S
            )
        except FileNotFoundError as error:
            raise KafkaError("certificates are made by openssl: apt-get install openssl") from error
        except subprocess.TimeoutExpired as error:
            raise KafkaError(f"openssl made no certificate within {_DEADLINE_S:.0f} s") from error
        except subprocess.CalledProcessError as error:
            raise KafkaError(f"{certificate}: openssl says: {error.stderr.strip()[-500:]}") from error


def _alternative(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        if not host or set(host) & set(',:\n "'):
            raise KafkaError(f"{host!r} is not a host name") from None
        return f"DNS:{host}"
