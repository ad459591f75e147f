"""Changes a topic in copies of a log.dir, and dies in each before another of the calls that change files.

    python -m tests.support.topic_dying BEFORE INTO create|delete|grow

The copies are INTO/1, INTO/2 and so on; INTO/0 is that in which nothing dies. It is started in an environment that
`tests.support.dying` makes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from kafka2011.log.log_manager import LogManager, TopicSettings
from tests.support.dying import count_below, steps_in

TOPIC = "views"
GROWN = 4
NEW, CREATED = "clicks", 3


def _do(log_dir: Path, what: str) -> None:
    with LogManager(log_dir, TopicSettings(num_partitions=2)) as manager:
        count_below(log_dir)
        if what == "delete":
            manager.delete_topic(TOPIC)
        elif what == "create":
            manager.create_topic(NEW, CREATED)
        else:
            manager.grow_topic(TOPIC, GROWN)
        count_below(log_dir / "no more")


def _main(before: Path, into: Path, what: str) -> None:
    steps = Path(os.environ["STEPS"])
    number, last = 0, 0
    while number <= last:
        log_dir = into / str(number)
        shutil.copytree(before, log_dir)
        child = os.fork()
        if not child:
            os.environ["DIE_AT"] = str(number)
            _do(log_dir, what)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == (-signal.SIGKILL if number else 0)
        last = last or len(steps_in(steps))
        number += 1


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
