"""Variables that Kubernetes and Docker put into every container beside a service, which look like settings.

A Kubernetes Service named `kafka2011-metrics` sets, in all pods of its namespace:

    KAFKA2011_METRICS_SERVICE_HOST=10.0.0.1
    KAFKA2011_METRICS_SERVICE_PORT=9100
    KAFKA2011_METRICS_SERVICE_PORT_HTTP=9100        (one for each named port)
    KAFKA2011_METRICS_PORT=tcp://10.0.0.1:9100
    KAFKA2011_METRICS_PORT_9100_TCP=tcp://10.0.0.1:9100
    KAFKA2011_METRICS_PORT_9100_TCP_PROTO=tcp       (and _PORT, _ADDR)

`docker run --link` sets the variables with PORT, and besides NAME=/container/alias and ENV_... of the linked container.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_ADDRESS = re.compile(r"(?:tcp|udp|sctp)://", re.IGNORECASE)
_NUMBERED_PORT = re.compile(r"_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?(?:_(?:START|END))?$")
_SERVICE_PORT = re.compile(r"(.+)_SERVICE_PORT(?:_.+)?$")
_SERVICE_HOST = "_SERVICE_HOST"
_DOCKER_ENVIRONMENT = re.compile(r"(.+?)_ENV_.+$")
_DOCKER_NAME = re.compile(r"/[^/]+/[^/]+$")


def is_service_link(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a variable of an environment was set for a service, and is no setting.

    For `*_PORT` only the value decides (`tcp://...`), since settings have such names too.
    """
    if name.endswith("_PORT") and _ADDRESS.match(environ[name]):
        return True
    if name.endswith(_SERVICE_HOST) or _NUMBERED_PORT.search(name):
        return True
    service_port = _SERVICE_PORT.match(name)
    if service_port is not None and service_port[1] + _SERVICE_HOST in environ:
        return True
    if name.endswith("_NAME"):
        return _is_docker_link(name.removesuffix("_NAME"), environ)
    linked = _DOCKER_ENVIRONMENT.match(name)
    return linked is not None and _is_docker_link(linked[1], environ)


def without_service_links(environ: Mapping[str, str], prefix: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables that begin with a prefix and may be settings, and the names of those for services."""
    settings: dict[str, str] = {}
    links: list[str] = []
    for name in sorted(environ):
        if not name.startswith(prefix):
            continue
        if is_service_link(name, environ):
            links.append(name)
        else:
            settings[name] = environ[name]
    return settings, links


def _is_docker_link(alias: str, environ: Mapping[str, str]) -> bool:
    return _DOCKER_NAME.match(environ.get(f"{alias}_NAME", "")) is not None
