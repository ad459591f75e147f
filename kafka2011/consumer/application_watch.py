"""ApplicationWatch: which streams of a member its application has not asked for a message for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from zk.clock import Clock

_LOOKS = 10
"""How often it looks in the time that an application has."""
_LONGEST_WAIT_S = 1.0
_SHORTEST_WAIT_S = 0.01


class AskedStream(Protocol):
    """What is to be known of a stream."""

    @property
    def stream_id(self) -> str:
        """Which stream it is."""

    @property
    def is_asked(self) -> bool:
        """Whether the application waits for a message of it now."""

    @property
    def progress(self) -> Hashable:
        """Something else whenever the application has asked for a message, or was handed one."""


class ApplicationWatch:
    """Looks now and then at what an application does, so that a message costs nothing more. Used by one thread.

    A stream that was never asked counts from the first look. Nobody is found silent before `longest_s` are over, and
    `interval_s` is how often to look.
    """

    def __init__(self, streams: Callable[[], Iterable[AskedStream]], longest_s: float, clock: Clock) -> None:
        self._streams = streams
        self._longest_s = longest_s
        self._clock = clock
        self.interval_s = min(max(longest_s / _LOOKS, _SHORTEST_WAIT_S), _LONGEST_WAIT_S)
        self._seen: dict[AskedStream, tuple[Hashable, float]] = {}  # the progress, and when it was new

    def silent(self) -> list[str]:
        """Return the ids of the streams that were not asked for too long, sorted."""
        now_s = self._clock.monotonic_s()
        silent = []
        for stream in self._streams():
            progress, since_s = self._seen.get(stream, (None, now_s))
            if stream.is_asked or stream.progress != progress:
                self._seen[stream] = stream.progress, now_s
            elif now_s - since_s > self._longest_s:
                silent.append(stream.stream_id)
        return sorted(silent)
