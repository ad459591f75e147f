"""A broker with a planted defect: `planted_replica.py DEFECT COMMAND...` is `kafka2011 COMMAND...` with that one."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from kafka2011.cli.app import main
from tests.models.replica.mutations import MUTATIONS
from tests.support.mutation import mutated


def run(defect: str, arguments: list[str]) -> int:
    """Run a command; raises KeyError without such a defect."""
    mutation = {each.defect: each for each in MUTATIONS}[defect]
    with ExitStack() as changed:
        changed.enter_context(mutated(mutation.function, mutation.old, mutation.new))
        if mutation.also is not None:
            changed.enter_context(mutated(*mutation.also))
        return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
