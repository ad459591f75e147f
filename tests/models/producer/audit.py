"""What must hold in the end, whatever happened: compares an account with the brokers' logs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.message.message_set import MessageSet
from kafka2011.producer.batch import Batch
from kafka2011.producer.errors import ConfirmTimeoutError, SetRefusedError
from kafka2011.wire.protocol import ANY_PARTITION
from tests.models.producer.faulty_broker import is_poison

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.producer.batch import Receipt
    from tests.models.producer.account import Account, Sent
    from tests.models.producer.faulty_broker import FaultyBroker
    from tests.models.producer.plan import Plan


class Place(NamedTuple):
    """Where a payload stands in a broker's log: the set's number and its own."""

    number: int
    within: int


class Log:
    """What a broker has."""

    def __init__(self, broker: FaultyBroker) -> None:
        self.first: dict[tuple[str, int, bytes], Place] = {}  # by topic and partition too
        self.times: Counter[bytes] = Counter()
        self.sets: set[bytes] = set()
        for number, (topic, partition, data) in enumerate(broker.appended):
            self.sets.add(data)
            for index, payload in enumerate(MessageSet.from_bytes(data)):
                for each in (partition, ANY_PARTITION):
                    self.first.setdefault((topic, each, payload), Place(number, index))
                self.times[payload] += 1


class Audit:
    """Checks one account of what was planned."""

    def __init__(self, account: Account, counts: Mapping[str, int], plan: Plan) -> None:
        self._account = account
        self._counts = counts
        self._plan = plan
        self._queued = [sent for sent in account.sends if sent.was_queued]
        self._logs = {broker_id: Log(broker) for broker_id, broker in account.brokers.items()}
        given = [payload for failure in account.failures for payload in failure.messages]
        self._failed = set(given)
        assert len(given) == len(self._failed), "on_failure got a message twice"

    def check(self) -> None:
        """Raise AssertionError where something does not hold."""
        self._check_ends()
        self._check_numbers()
        self._check_failures()
        self._check_what_send_refused()
        if self._plan.config.confirm:
            self._check_confirmed()
        else:
            self._check_unconfirmed()
        if self._plan.keeps_order:
            self._check_order()
        if self._plan.is_timed:
            self._check_times()

    def _check_ends(self) -> None:
        """End every future once, and well only if all of its messages do."""
        assert not self._account.ended_twice
        for sent in self._queued:
            assert sent.future is None or sent.future.done(), f"the future of {sent} never ends"
            failed = [payload for payload in sent.payloads if payload in self._failed]
            if sent.error is None:
                assert not failed, f"{sent} ended well, but on_failure got {failed}"
            else:
                assert failed or not sent.payloads, f"on_failure was not told of {sent}"

    def _check_numbers(self) -> None:
        """Count each message once, as sent or as failed."""
        messages = sum(sent.messages for sent in self._queued)
        failed = sum(
            any(map(self._failed.__contains__, sent.payloads))
            if sent.is_compressed
            else sum(map(self._failed.__contains__, sent.payloads))
            for sent in self._queued
        )
        counted = (self._counts["messages_sent"], self._counts["messages_failed"])
        expected = (messages - failed, failed)
        assert counted == expected, f"(sent, failed) are counted as {counted}, not {expected}"
        in_future: Counter[object] = Counter()
        for sent in self._queued:
            in_future[sent.future] += sent.messages
        for sent in self._queued:
            if sent.future is not None and sent.error is None:
                told = sent.future.result(0).messages
                assert told == in_future[sent.future], f"{told} messages in the receipt of {in_future[sent.future]}"

    def _check_failures(self) -> None:
        """Give the application all that failed, as it was sent, with its keys."""
        keys = {payload: sent.key for sent in self._queued for payload in sent.payloads}
        sets = {sent.ready for sent in self._queued}
        for failure in self._account.failures:
            payloads = list(failure.messages)
            assert keys.keys() >= set(payloads), f"on_failure got what was never queued: {failure}"
            expected = [keys[payload] for payload in payloads]
            if isinstance(failure.messages, MessageSet):
                assert bytes(failure.messages) in sets, f"on_failure got another set: {failure}"
                expected = expected[:1] or failure.keys[:1]  # an empty one's key cannot be known here
            assert failure.keys == expected, f"on_failure got wrong keys: {failure}"
            is_refused = isinstance(failure.error, SetRefusedError)
            assert is_refused or not self._plan.is_calm, f"nothing happened, but this failed: {failure}"
            if is_refused and not self._plan.faults:
                assert any(map(is_poison, payloads)), f"nobody refuses this: {failure}"

    def _check_what_send_refused(self) -> None:
        """Send nothing that `send` raised an error for."""
        refused = {payload for sent in self._account.sends if not sent.was_queued for payload in sent.payloads}
        for log in self._logs.values():
            assert not refused & log.times.keys(), "a broker has what send refused"

    def _check_confirmed(self) -> None:
        """Confirm what was appended before, byte for byte, and fail with known errors only."""
        for sent in self._queued:
            self._check_there(sent)
            if sent.error is not None:
                assert isinstance(sent.error, SetRefusedError | ConfirmTimeoutError), f"{sent} failed: {sent.error!r}"
            elif sent.future is not None:
                assert not any(map(is_poison, sent.payloads)), f"{sent} was refused, and confirmed"
                receipt = sent.future.result(0)
                assert receipt.confirmed
                if isinstance(sent.future, Batch) or not sent.is_movable:
                    self._check_place(sent, receipt)

    def _check_there(self, sent: Sent) -> None:
        for payload in sent.payloads:
            if payload not in self._failed:
                assert any(payload in log.times for log in self._logs.values()), (
                    f"{payload!r} was confirmed, and is lost"
                )

    def _check_place(self, sent: Sent, receipt: Receipt) -> None:
        assert sent.future is not None
        log = self._logs[receipt.broker_id]
        appended = self._account.ends[sent.future].appended[receipt.broker_id]
        assert not sent.ready or sent.ready in log.sets, f"the bytes of {sent} were changed"
        for payload in sent.payloads:
            place = log.first.get((receipt.topic, receipt.partition, payload))
            assert place is not None, f"{payload!r} is not where it was confirmed: {receipt}"
            assert place.number < appended, f"{payload!r} was confirmed before it was appended"

    def _check_unconfirmed(self) -> None:
        """Send nothing twice, and lose nothing while nothing happens."""
        times: Counter[bytes] = Counter()
        for log in self._logs.values():
            times.update(log.times)
        twice = [payload for payload, number in times.items() if number > 1]
        assert not twice, f"appended twice: {twice}"
        if self._plan.is_calm and not self._plan.habits.sends_poison:
            missing = [each for sent in self._queued for each in sent.payloads if each not in times]
            assert not missing, f"nothing happened, but {missing} are lost"

    def _check_order(self) -> None:
        """Keep the order of one thread's sends in a partition: always with keys, and without while they do not move."""
        latest: dict[tuple[object, ...], tuple[Place, bytes]] = {}
        for sent in self._queued:
            if sent.future is None or sent.error is not None or sent.future in self._account.moved:
                continue
            receipt = sent.future.result(0)
            if receipt.partition == ANY_PARTITION:
                continue
            group = (sent.sender, sent.is_movable, receipt[:3])
            first = self._logs[receipt.broker_id].first
            for payload in sent.payloads:
                place = first.get((receipt.topic, receipt.partition, payload))
                if place is None:  # unconfirmed
                    continue
                before = latest.get(group)
                assert before is None or before[0] < place, f"{payload!r} stands before {before} in {receipt}"
                latest[group] = place, payload

    def _check_times(self) -> None:
        """End sends, and the producer, in time."""
        longest_s = max(self._account.closing_s)
        assert longest_s <= self._plan.longest_close_s, f"closing took {longest_s:.3f} s"
        for sent in self._queued:
            if sent.future is not None:
                took_s = self._account.ends[sent.future].at_s - sent.returned_s
                assert took_s <= self._plan.longest_send_s, f"{sent} took {took_s:.3f} s to end"
