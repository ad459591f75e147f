"""What a server shows by TLS, whose certificates it takes, and who a client is by its own."""

from __future__ import annotations

import logging
import re
import ssl
from typing import TYPE_CHECKING, Any, Final

from kafka2011.broker.security.file_changes import FileChanges
from kafka2011.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zk.clock import Clock

logger = logging.getLogger(__name__)

NOBODY: Final = "anonymous"
"""Who a client is that shows no certificate; so is everybody on a plain port."""


class Certificates:
    """A server's certificate and key, and who signs clients' ones; read again when the files change.

    Without `ca` clients are not asked for certificates; with `required` they must have one. Raises ConfigError when
    they cannot be used, at the start only: later the old ones stay, and that is logged.
    """

    def __init__(self, certificate: Path, key: Path, ca: Path | None, *, required: bool, clock: Clock) -> None:
        self._certificate = certificate
        self._key = key
        self._ca = ca
        self._is_required = required
        self._changes = FileChanges([certificate, key, *([ca] if ca else [])], clock)
        self._names = ", ".join(map(str, self._changes.paths))
        try:
            self._context = self._read()
        except OSError as error:  # an SSLError is one
            raise ConfigError(f"{self._names}: {error}") from error

    @property
    def are_required(self) -> bool:
        """Whether only those come in who show a certificate."""
        return self._ca is not None and self._is_required

    def context(self) -> ssl.SSLContext:
        """Return how the next client is met."""
        if self._changes.come():
            try:
                self._context = self._read()
            except OSError as error:
                logger.error("%s have changed and cannot be used, the old ones stay: %s", self._names, error)  # noqa: TRY400
            else:
                logger.info("%s have changed and were read again", self._names)
        return self._context

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # a client that asks whether anything has come must not be told of a ticket
        context.load_cert_chain(self._certificate, self._key)
        if self._ca is not None:
            context.load_verify_locations(self._ca)
            context.verify_mode = ssl.CERT_REQUIRED if self._is_required else ssl.CERT_OPTIONAL
        return context


def principal_of(certificate: Mapping[str, Any], rule: re.Pattern[str]) -> str:
    """Return who a client is by the subject of its certificate; NOBODY without one.

    The subject is written as RFC 4514 does but in the certificate's order, `C=DE,O=shop,CN=reports`; the principal is
    what the rule's first group finds in it, and nobody where it finds nothing.
    """
    parts = [
        f"{_SHORT.get(name, name)}={_ESCAPED.sub(_BACKSLASH, value)}"
        for relative in certificate.get("subject", ())
        for name, value in relative
    ]
    principal = rule.search(",".join(parts))
    return (principal[1] or NOBODY) if principal else NOBODY


_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
}
_ESCAPED = re.compile(r'[,+"\\<>;=]')
_BACKSLASH = r"\\\g<0>"
