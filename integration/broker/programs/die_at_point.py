"""The command line `kafka2011` in a process that kills itself at one point of what an operator has asked for.

DIE_AT_POINT is `before` or `after` and a step, as in `before done`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from kafka2011.broker.registration import BrokerRegistration
from kafka2011.cli.app import main
from zk.brokers import BrokerRegistry
from zk.requests import RequestRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS: dict[str, tuple[type, str]] = {
    "unregister": (BrokerRegistry, "unregister_topic"),
    "carry out": (BrokerRegistration, "carry_out"),
    "change": (BrokerRegistry, "change_topic"),
    "done": (RequestRegistry, "done"),
}


def _dying(call: Callable[..., Any], when: str) -> Callable[..., Any]:
    def dying(*arguments: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        call(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return dying


if __name__ == "__main__":
    if point := os.environ.get("DIE_AT_POINT"):
        when, _, step = point.partition(" ")
        owner, name = _STEPS[step]
        setattr(owner, name, _dying(getattr(owner, name), when))
    sys.exit(main())
