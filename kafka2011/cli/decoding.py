"""Events as `consume --decode` prints them: the schema's name, and the fields as JSON."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafka2011.cli.formats import as_object
from kafka2011.cli.output import counted
from kafka2011.errors import KafkaError
from kafka2011.events.errors import UndecodableEventError
from kafka2011.events.shown import as_json, shown

if TYPE_CHECKING:
    from kafka2011.cli.formats import Format
    from kafka2011.events.codec import Event, EventDecoder
    from kafka2011.message.message_set import Message

logger = logging.getLogger(__name__)


class Decoding:
    """Prints events in place of payloads; what cannot be decoded is logged, counted and left out."""

    def __init__(self, decoder: EventDecoder) -> None:
        self._decoder = decoder
        self.undecodable = 0

    def within(self, to_bytes: Format) -> Format:
        """Return a format in which an event's text stands in place of the payload."""
        return lambda message: self._print(message, lambda event: to_bytes(message._replace(payload=_line(event))))

    def as_json(self, delimiter: bytes) -> Format:
        """Return the format of JSON objects, with `schema`, `fingerprint` and `event` in place of the payload."""

        def to_bytes(message: Message, event: Event) -> bytes:
            document = as_object(message._replace(payload=b""))
            del document["payload"]
            document |= {"schema": event.schema.name, "fingerprint": event.schema.fingerprint, "event": shown(event)}
            return _json(document) + delimiter

        return lambda message: self._print(message, lambda event: to_bytes(message, event))

    def end(self) -> None:
        """Raise KafkaError if anything was left out."""
        if self.undecodable:
            raise KafkaError(f"{counted(self.undecodable, 'message')} could not be decoded")

    def _print(self, message: Message, to_bytes: Any) -> bytes:
        try:
            event = self._decoder.decode(message)
        except UndecodableEventError as error:
            self.undecodable += 1
            logger.warning("%s", error)
            return b""
        printed: bytes = to_bytes(event)
        return printed


def _line(event: Event) -> bytes:
    return event.schema.name.encode() + b" " + _json(shown(event))


def _json(document: Any) -> bytes:
    return as_json(document).encode()
