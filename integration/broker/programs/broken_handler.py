"""The command line `kafka2011`, with a bug: a produce to the topic "bug" raises what nobody expects."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafka2011.broker.requests.handlers import RequestHandlers
from kafka2011.cli.app import main
from kafka2011.wire.protocol import ProduceRequest

if TYPE_CHECKING:
    from kafka2011.broker.requests.handlers import Client, Reply
    from kafka2011.wire.protocol import Request

_handle = RequestHandlers.handle


def _broken_handle(handlers: RequestHandlers, request: Request, client: Client) -> Reply | None:
    if isinstance(request, ProduceRequest) and request.topic == "bug":
        raise ZeroDivisionError("a bug")
    return _handle(handlers, request, client)


if __name__ == "__main__":
    RequestHandlers.handle = _broken_handle  # type: ignore[method-assign,assignment]
    sys.exit(main())
