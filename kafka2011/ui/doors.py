"""Who comes in: TLS for browsers, with the broker's own certificates, and who each of them is."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from kafka2011.broker.security.access import CONSUME
from kafka2011.broker.security.certificates import NOBODY, principal_of

if TYPE_CHECKING:
    import asyncio
    import ssl

    from starlette.requests import Request

    from kafka2011.broker.security.access import Access
    from kafka2011.broker.security.certificates import Certificates

_RULE = re.compile("CN=([^,]+)")
"""Who somebody is, in the subject of a certificate: as brokers have it by default."""


@dataclass(frozen=True, slots=True)
class Doors:
    """Who may come in, and what they may then do: by TLS with `certificates`, change things, see which messages."""

    certificates: Certificates | None = None
    allow_changes: bool = False
    access: Access | None = None

    def may_see(self, principal: str, topic: str) -> bool:
        """Say whether somebody may see the messages of a topic."""
        return self.access is None or self.access.may(principal, CONSUME, topic)


class KnowingProtocol(H11Protocol):
    """Speaks HTTP to one browser, and notes who it is by its certificate."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, after the handshake."""
        certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
        self.app_state = {**self.app_state, "principal": principal_of(certificate, _RULE)}
        super().connection_made(transport)


def context_of(certificates: Certificates) -> ssl.SSLContext:
    """Return how browsers are met: each by the certificates of its time, which may be replaced while this runs."""

    def meet_by_newest(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = certificates.context()

    context = certificates.context()
    context.sni_callback = meet_by_newest  # called whether or not the browser names a server
    return context


def principal_in(request: Request) -> str:
    """Return who asks, by the certificate; `anonymous` without one."""
    return str(getattr(request.state, "principal", NOBODY))


def who_asks(request: Request) -> str:
    """Say for the log who asks."""
    return f"{principal_in(request)} at {request.client.host if request.client else 'an unknown address'}"


def is_for_this_machine_only(address: str) -> bool:
    """Say whether nobody on another machine reaches an address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
