"""What a member of a group subscribes to, as a value and as the text of its znode.

{ "topic": 2,"other": 1 }     a number of streams for each topic
*2*regex                      that many streams for all topics that a whitelist allows
!2!regex                      the same for a blacklist
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.consumer.topic_filter import Blacklist, TopicFilter, Whitelist
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.message.topic import InvalidTopicError, validate_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_STREAMS = 10_000

_FILTERED = re.compile(r"([*!])([0-9]{1,9})\1(.+)", re.DOTALL)
_FILTERS: dict[str, type[TopicFilter]] = {"*": Whitelist, "!": Blacklist}


class MalformedSubscriptionError(KafkaError):
    """The text of another member's znode is not a subscription; every 0.7 member stalls on it, ours ignores it."""


@dataclass(frozen=True, slots=True)
class TopicCount:
    """Topics with their numbers of streams, or a filter with one number for all that it allows."""

    streams_by_topic: Mapping[str, int]
    topic_filter: TopicFilter | None = None
    filtered_streams: int = 0

    @classmethod
    def static(cls, streams_by_topic: Mapping[str, int]) -> TopicCount:
        """Subscribe to these topics. Raises ConfigError when there is none, or a number or name makes no sense."""
        if not isinstance(streams_by_topic, Mapping):
            kind = type(streams_by_topic).__name__
            raise TypeError(f"a subscription is a dict, topic to number of streams, not {kind}")
        if not streams_by_topic:
            raise ConfigError("a subscription needs at least one topic")
        for topic, streams in streams_by_topic.items():
            try:
                validate_topic(topic)
            except InvalidTopicError as error:
                raise ConfigError(f"cannot subscribe: {error}") from error
            _check_streams(topic, streams)
        return cls(dict(streams_by_topic))

    @classmethod
    def filtered(cls, topic_filter: TopicFilter, streams: int) -> TopicCount:
        """Subscribe to all topics that a filter allows, including those created later."""
        if not isinstance(topic_filter, TopicFilter):
            raise TypeError(f"a filter is a Whitelist or a Blacklist, not {type(topic_filter).__name__}")
        _check_streams(repr(topic_filter), streams)
        return cls({}, topic_filter, streams)

    @classmethod
    def parse(cls, text: str) -> TopicCount:
        """Read the text of a member's znode. Raises MalformedSubscriptionError."""
        try:
            match = _FILTERED.fullmatch(text)
            if match:
                return cls.filtered(_FILTERS[match[1]](match[3]), int(match[2]))
            counts = json.loads(text)
            if not isinstance(counts, dict):
                raise MalformedSubscriptionError(f"{text[:200]!r} is not a list of topics")
            for topic, streams in counts.items():
                _check_streams(topic, streams)
        except (ValueError, RecursionError, ConfigError) as error:
            raise MalformedSubscriptionError(f"{text[:200]!r} is not a subscription: {error}") from error
        return cls(counts)

    @property
    def text(self) -> str:
        """The znode's text, byte for byte as 0.7 writes it."""
        if self.topic_filter is not None:
            mark = self.topic_filter.mark
            return f"{mark}{self.filtered_streams}{mark}{self.topic_filter.regex}"
        topics = ",".join(f'"{topic}": {streams}' for topic, streams in self.streams_by_topic.items())
        return f"{{ {topics} }}"

    def streams_of(self, topic: str) -> int:
        """Return how many streams this member has for a topic; 0 when it does not want it."""
        if self.topic_filter is not None:
            return self.filtered_streams if self.topic_filter.allows(topic) else 0
        return self.streams_by_topic.get(topic, 0)

    def topics(self, known: Iterable[str]) -> list[str]:
        """Return the topics wanted: those subscribed to, known or not, or the known ones that the filter allows."""
        if self.topic_filter is not None:
            return [topic for topic in known if self.topic_filter.allows(topic)]
        return list(self.streams_by_topic)


def stream_ids(consumer_id: str, streams: int) -> list[str]:
    """Return the ids of a member's streams, `{consumer}-{number}`."""
    return [f"{consumer_id}-{number}" for number in range(streams)]


def _check_streams(what: str, streams: object) -> None:
    if not isinstance(streams, int) or isinstance(streams, bool) or not 0 < streams <= MAX_STREAMS:
        raise ConfigError(f"{what}: {streams!r} is not a number of streams, 1 to {MAX_STREAMS}")
