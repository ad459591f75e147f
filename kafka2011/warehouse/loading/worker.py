"""A process of `local_engine`: takes a job and a task from a pipe, runs it, and sends back what came of it.

python -m kafka2011.warehouse.loading.worker FD
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection

from kafka2011.errors import KafkaError
from kafka2011.warehouse.errors import WarehouseError


def main(fd: int) -> None:
    """Work until the other end of the pipe is closed, as it is when that process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # both are for the loader, which lets a load end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.dup2(2, 1)  # what a command prints is read by programs
    with Connection(fd) as pipe:
        while True:
            try:
                job, task = pipe.recv()
            except EOFError:
                return
            try:
                result, error = job(task), None
            except KafkaError as failure:
                result, error = None, failure
            except Exception as failure:  # noqa: BLE001 (the loader is told)
                traceback.print_exc()
                result, error = None, WarehouseError(f"a task failed: {type(failure).__name__}: {failure}")
            try:
                pipe.send((result, error))
            except BrokenPipeError:
                return


if __name__ == "__main__":
    main(int(sys.argv[1]))
