"""How a member divides: as 0.7 does, or by a rule that all members say, over all topics that they want."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, cast

import pytest

from kafka2011.consumer.division import Division, TryAgainError
from kafka2011.consumer.fair_assignment import RULE, assign_fairly
from kafka2011.consumer.rebalance import assign
from kafka2011.consumer.topic_count import TopicCount, stream_ids
from kafka2011.consumer.topic_filter import Whitelist
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.consumer.group_registries import GroupSession

    Wake = Callable[[], None]

TOPICS = ["clicks", "searches", "views"]


class Registries:
    """What is registered; `on_refresh` happens when a member looks again."""

    def __init__(self, members: dict[str, TopicCount], rules: dict[str, str]) -> None:
        self.members = {member: count.text for member, count in members.items()}
        self.said = rules
        self.registered: list[tuple[str, str, str | None]] = []
        self.on_refresh: Callable[[], object] = lambda: None

    def register(self, consumer_id: str, subscription: str, rule: str | None = None) -> None:
        self.registered.append((consumer_id, subscription, rule))

    def refresh(self) -> None:
        self.on_refresh()

    def subscriptions(self, _wake: Wake) -> dict[str, str]:
        return dict(self.members)

    def rules(self, _wake: Wake) -> dict[str, str]:
        return dict(self.said)

    def topics(self, _wake: Wake) -> list[str]:
        return TOPICS

    def partitions_of(self, topics: Iterable[str], _wake: Wake) -> dict[str, dict[int, int]]:
        return {topic: {0: 1} for topic in topics}

    def brokers(self, _wake: Wake) -> dict[int, Broker]:
        return {0: Broker(0, "h", 9000, "h-0")}


MEMBERS = {
    "a": TopicCount.static({"clicks": 1}),
    "b": TopicCount.filtered(Whitelist("views|clicks|searches"), 1),
    "c": TopicCount.static({"views": 1}),
}
FAIR = {
    where: stream
    for stream, share in assign_fairly([TopicPartition(topic, 0, 0) for topic in TOPICS], MEMBERS).items()
    for where in share
}


def division(member: str = "a", rule: str | None = RULE) -> Division:
    return Division(member, MEMBERS[member], rule=rule, counts=Counter(), wake=lambda: None)


def read(asked: Division, registries: Registries) -> dict[TopicPartition, str]:
    owners, brokers = asked.read(cast("GroupSession", registries))
    assert list(brokers) == [0]
    return dict(owners)


def as_in_07(topic: str) -> dict[TopicPartition, str]:
    streams = [s for member, count in MEMBERS.items() for s in stream_ids(member, count.streams_of(topic))]
    return {w: s for s, share in assign([TopicPartition(topic, 0, 0)], streams).items() for w in share}


@pytest.mark.parametrize("member", MEMBERS)
def test_all_topics_that_any_member_wants_are_divided_fairly(member: str) -> None:
    """Whichever member asks, also one that wants few of them itself."""
    registries = Registries(MEMBERS, dict.fromkeys(MEMBERS, RULE))
    assert read(division(member), registries) == FAIR
    assert registries.registered == []


def test_one_that_says_nothing_or_something_else_has_all_divide_as_in_07(caplog: pytest.LogCaptureFixture) -> None:
    """The log says so once, and because of whom; who divides as 0.7 does looks only at what it wants."""
    caplog.set_level(logging.INFO)
    asked = division()
    for said in ({"a": RULE, "b": RULE}, {"a": RULE, "b": RULE, "c": "fairer"}):
        registries = Registries(MEMBERS, said)
        for _ in range(2):
            assert read(asked, registries) == as_in_07("clicks")
    assert [record.message for record in caplog.records] == ["a divides as in 0.7, because of c"]
    registries.said["c"] = RULE
    assert read(asked, registries) == FAIR
    assert caplog.records[-1].message == "a divides by the rule fair"
    assert read(division(rule=None), registries) == as_in_07("clicks")


def test_who_came_or_went_meanwhile_is_not_taken_for_one_that_says_nothing() -> None:
    """Members and what they say are read one after the other."""
    registries = Registries(MEMBERS, {"a": RULE, "b": RULE})
    registries.on_refresh = lambda: registries.members.pop("c", None)
    with pytest.raises(TryAgainError, match="'c'"):
        read(division(), registries)
    registries = Registries(MEMBERS, {"a": RULE, "b": RULE})
    registries.on_refresh = lambda: registries.said.setdefault("c", RULE)
    with pytest.raises(TryAgainError, match="'c'"):
        read(division(), registries)
    assert read(division(), registries) == FAIR


def test_what_a_stranger_deleted_is_said_again() -> None:
    """Nobody else would."""
    registries = Registries(MEMBERS, {"b": RULE, "c": RULE})
    assert read(division(), registries) == FAIR
    assert registries.registered == [("a", '{ "clicks": 1 }', RULE)]
