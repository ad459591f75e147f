"""Whose each partition should be: what all members conclude from the same registries (paper, section 3.2)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.consumer.fair_assignment import FairShares
from kafka2011.consumer.rebalance import owners_by_topic
from kafka2011.consumer.topic_count import MalformedSubscriptionError, TopicCount
from kafka2011.errors import KafkaError
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping

    from kafka2011.consumer.group_registries import GroupSession
    from zk.cluster import Broker

logger = logging.getLogger(__name__)


class TryAgainError(KafkaError):
    """The registries do not allow a rebalance just now."""


class Division:
    """Divides the partitions that a member is concerned with. `wake` is called when it should be asked again.

    `rule` is how to divide if all members say the same; None: as in 0.7. `found_first` are the partitions that there
    were when it was asked first.
    """

    def __init__(
        self,
        consumer_id: str,
        topic_count: TopicCount,
        *,
        rule: str | None,
        counts: Counter[str],
        wake: Callable[[], None],
    ) -> None:
        self._consumer_id = consumer_id
        self._topic_count = topic_count
        self._rule = rule
        self._counts = counts
        self._wake = wake
        self._is_by_rule: bool | None = None  # the last time
        self._fair_shares = FairShares()
        self._ignored: set[tuple[str, str]] = set()  # malformed members that were logged
        self._found_first: set[TopicPartition] | None = None

    @property
    def found_first(self) -> set[TopicPartition]:
        """The partitions that there were when it was asked first."""
        assert self._found_first is not None
        return self._found_first

    def register(self, session: GroupSession) -> None:
        """Be a member."""
        session.register(self._consumer_id, self._topic_count.text, self._rule)

    def read(self, session: GroupSession) -> tuple[Mapping[TopicPartition, str], dict[int, Broker]]:
        """Read the registries; return the stream that each partition belongs to, and the brokers.

        Of the topics at least that this member wants. Raises TryAgainError when the registries contradict themselves.
        """
        members = self._members(session)
        is_by_rule = self._rule is not None and self._agree(session, members)
        subscribed = members.values() if is_by_rule else [self._topic_count]
        known = session.topics(self._wake) if any(count.topic_filter is not None for count in subscribed) else ()
        topics = dict.fromkeys(topic for count in subscribed for topic in count.topics(known))
        partitions = session.partitions_of(topics, self._wake)
        brokers = session.brokers(self._wake)
        for topic, counts in partitions.items():
            missing = [broker_id for broker_id in counts if broker_id not in brokers]
            if missing:
                raise TryAgainError(f"brokers {missing} have topic {topic} but are not registered themselves")
        every = {topic: TopicPartition.all_of(topic, counts) for topic, counts in partitions.items()}
        if self._found_first is None:
            self._found_first = {where for of_topic in every.values() for where in of_topic}
        return (self._fair_shares.owners if is_by_rule else owners_by_topic)(every, members), brokers

    def _agree(self, session: GroupSession, members: Mapping[str, TopicCount]) -> bool:
        """Say whether all members divide by our rule; one that says nothing divides as 0.7 does, and so all must."""
        rules = session.rules(self._wake)
        if rules.get(self._consumer_id) != self._rule:  # deleted by a stranger
            self.register(session)
            rules = {**rules, self._consumer_id: str(self._rule)}
        others = [member for member in members if rules.get(member) != self._rule]
        if others:
            # Members and rules are read one after the other: who came or went in between would seem to say nothing.
            session.refresh()
            rules = session.rules(self._wake)
            if self._members(session).keys() != members.keys() or any(rules.get(m) == self._rule for m in others):
                raise TryAgainError(f"{others} came or went just now")
        if (is_by_rule := not others) != self._is_by_rule:
            self._is_by_rule = is_by_rule
            how = f"by the rule {self._rule}" if is_by_rule else f"as in 0.7, because of {', '.join(others)}"
            logger.info("%s divides %s", self._consumer_id, how)
        return is_by_rule

    def _members(self, session: GroupSession) -> dict[str, TopicCount]:
        members: dict[str, TopicCount] = {}
        texts = session.subscriptions(self._wake)
        self._ignored.intersection_update(texts.items())
        for consumer_id, text in texts.items():
            try:
                members[consumer_id] = TopicCount.parse(text)
            except MalformedSubscriptionError as error:
                if (consumer_id, text) not in self._ignored:
                    self._ignored.add((consumer_id, text))
                    self._counts["malformed_members"] += 1
                    logger.warning("ignored member %s of the group: %s", consumer_id, error)
        if self._consumer_id not in members:
            # Deleted by a stranger: register again, or we would wait forever for a share.
            self.register(session)
            members[self._consumer_id] = self._topic_count
        return members
