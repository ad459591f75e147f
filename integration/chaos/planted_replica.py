"""Defects that a run's replicas may be given: those that the model of replicas is tried with."""

from __future__ import annotations

import os
from contextlib import ExitStack

from integration.chaos.defects import VARIABLE
from tests.models.replica.mutations import MUTATIONS
from tests.support.mutation import mutated


def plant() -> None:
    """Have the defect that the environment names, for good, if it is one of replicas."""
    for mutation in MUTATIONS:
        if mutation.defect == os.environ.get(VARIABLE):
            _planted.enter_context(mutated(mutation.function, mutation.old, mutation.new))
            if mutation.also is not None:
                _planted.enter_context(mutated(*mutation.also))


_planted = ExitStack()
