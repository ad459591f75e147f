"""Who hears of a fork."""

from __future__ import annotations

import gc
import os

from zk import forks


class Forgetful:
    """Notes what it was told."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def forget_after_fork(self) -> None:
        """Note it."""
        self._told.append("a child")


def test_a_forked_child_tells_its_copies_of_what_lives_and_the_parent_hears_nothing() -> None:
    """However many there are; what nobody holds any more is not kept for that."""
    told: list[str] = []
    living = [Forgetful(told), Forgetful(told)]
    for one in [*living, Forgetful(told)]:
        forks.register(one)
    del one
    gc.collect()
    child = os.fork()
    if child == 0:
        os._exit(len(told))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(living)
    assert not told
