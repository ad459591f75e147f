"""Telling a service manager (systemd's Type=notify) that a server is ready."""

from __future__ import annotations

import logging
import os
import socket

logger = logging.getLogger(__name__)

_SOCKET = "NOTIFY_SOCKET"


def notify_ready() -> None:
    """Say that clients may connect now; nothing where no service manager asked to be told."""
    path = os.environ.get(_SOCKET)
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifying:
            notifying.connect(address)
            notifying.sendall(b"READY=1")
    except OSError as error:
        logger.warning("%s=%s could not be told that the server is ready: %s", _SOCKET, path, error)
