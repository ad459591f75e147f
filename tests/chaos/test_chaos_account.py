"""The account of a chaos run: each kind of violation is found, and only where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.chaos.account import commits, deletions, messages, order, ownership, repeats, resources, settling
from integration.chaos.account.summary import TROUBLE, account_of
from integration.chaos.evidence import Deletion
from integration.chaos.records import NO_KEY, MemberFile, Place
from tests.support.chaos_evidence import (
    GROUP,
    WHERE,
    A,
    B,
    commit,
    good_evidence,
    happened,
    logged,
    message,
    owned,
    place,
    receipt,
    sample,
    sent,
    tenure,
)
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from integration.chaos.evidence import Evidence, Happened
    from integration.chaos.records import Logged


def rules(evidence: Evidence) -> set[str]:
    return {violation.rule for violation in account_of(evidence).violations}


def test_nothing_is_wrong() -> None:
    """What went well is accounted as good, with its figures."""
    account = account_of(good_evidence())
    assert account.is_good
    assert account.figures["messages confirmed"] == 2
    assert "VIOLATED" not in account.text()


def test_a_confirmed_message_is_lost() -> None:
    """A confirmed message must lie in a log; one that was only written, or failed, need not."""
    evidence = good_evidence()
    evidence.sent += [sent(2), sent(3, "written"), sent(4, "failed"), sent(5, "")]
    assert [str(each) for each in messages.find_wrong_logs(evidence)] == [f"{messages.LOST}: keyed.1:2 to chaos-1"]
    assert messages.count_lost_unconfirmed(evidence) == 1
    assert "VIOLATED, 1 times: a confirmed message is not in the log" in account_of(evidence).text()


def test_a_power_cut_takes_what_was_not_flushed() -> None:
    """Nobody promised that, nor that a group gets it; what a member has read was flushed, and may not go."""
    evidence = good_evidence()
    evidence.sent += [sent(2), sent(3)]
    evidence.vanished = {message(2)}
    assert [each.text for each in account_of(evidence).violations] == [
        "keyed.1:3 to chaos-1",
        f"{GROUP}: keyed.1:3, which lies at no place",
    ]
    assert account_of(evidence).figures["confirmed, taken by power cuts"] == 1
    assert settling.behind(evidence, GROUP) == [(4.1, 100.0)]
    del evidence.sent[-2:]
    evidence.vanished = {message(1)}
    del evidence.logged[1]
    assert rules(evidence) == {messages.GONE}


def deletion(left_bytes: int, seen_s: float, missed_s: float) -> Deletion:
    return Deletion(WHERE, 0, seen_s, missed_s, left_bytes)


def test_a_broker_deletes_what_it_was_told_to() -> None:
    """One that keeps next to nothing for a while deletes segments then, and keeps as much as it was told to."""
    evidence = good_evidence()
    evidence.happened = [happened("retention", 5, 9, "broker-0", A)]
    evidence.deletions = [deletion(10_000, 4.9, 5.1), deletion(10_000, 8.9, 9.1)]
    assert account_of(evidence).is_good
    assert account_of(evidence).figures["segments deleted"] == 2


@pytest.mark.parametrize(
    ("happening", "wrong"),
    [
        (happened("retention", 5, 9, "broker-0", A), deletion(9_999, 6, 7)),
        (happened("retention", 5, 9, "broker-0", A), deletion(10_000, 4.8, 4.9)),
        (happened("retention", 5, 9, "broker-0", A), deletion(10_000, 9.1, 9.2)),
        (happened("retention", 5, 9, "broker-1", A), deletion(10_000, 6, 7)),
        (happened("clock steps", 5, 9, "broker-0"), deletion(10_000, 6, 7)),
    ],
)
def test_a_broker_deletes_what_its_settings_let_it_keep(happening: Happened, wrong: Deletion) -> None:
    """It deletes too much, or too early, too late, instead of another, or because its clock was off."""
    evidence = good_evidence()
    evidence.happened = [happening]
    evidence.deletions = [wrong]
    assert rules(evidence) == {deletions.DELETED}


def test_a_log_is_altered() -> None:
    """A log holds nothing but what was sent."""
    evidence = good_evidence()
    evidence.logged.append(logged(2)._replace(message=None))
    assert rules(evidence) == {messages.ALTERED}


def test_a_member_is_handed_altered_bytes() -> None:
    """What is handed out is what was sent, byte for byte."""
    evidence = good_evidence()
    evidence.members[A].receipts.append(receipt(A, 3, 1)._replace(message=None))
    assert messages.ALTERED_ON_THE_WAY in rules(evidence)


@pytest.mark.parametrize("kept", [[], [logged(1, 7)]])
def test_what_was_flushed_is_gone(kept: list[Logged]) -> None:
    """What a member has read lies there in the end, unconfirmed or not."""
    evidence = good_evidence()
    evidence.sent[1] = sent(1, "written")
    evidence.sent.append(sent(7))
    evidence.logged = [logged(0), logged(2, 7), *kept]
    evidence.members[A].receipts.append(receipt(A, 3, 2, 7))
    assert messages.GONE in {each.rule for each in messages.find_wrong_receipts(evidence)}


def test_a_group_has_not_received_a_message() -> None:
    """Each group gets what was confirmed, whatever other groups got."""
    evidence = good_evidence()
    evidence.groups["steady"] = ["steady-1"]
    evidence.registry.owned.append(owned("steady-1", group="steady"))
    evidence.members["steady-1"] = MemberFile([receipt("steady-1", 1, 0)], [tenure("steady-1", 0, "assigned")], [])
    assert [each.text for each in account_of(evidence).violations] == [
        "steady: keyed.1:1, which lies at chaos-1/0-0@100+0"
    ]


def test_a_message_lies_in_another_partition_than_named() -> None:
    """A partition that was named gets the message."""
    evidence = good_evidence()
    evidence.sent[1] = sent(1, named="0-1")
    assert rules(evidence) == {messages.MISDIRECTED}


def test_messages_of_one_key_lie_in_another_order() -> None:
    """The first places of one key's messages in a partition are in the order of sending; repeats do not count."""
    evidence = good_evidence()
    evidence.logged = [logged(0, 0), logged(1, 1), logged(2, 0), logged(3, 1)]
    assert not list(order.find_disorder_in_logs(evidence))
    evidence.logged = [logged(0, 1), logged(1, 0)]
    assert [each.rule for each in order.find_disorder_in_logs(evidence)] == [order.BY_KEY]
    evidence.logged[0] = logged(0, 1, key="other")
    assert not list(order.find_disorder_in_logs(evidence))


def test_messages_without_a_key_lie_in_another_order() -> None:
    """They keep their order unless a broker was in trouble; by name they keep it always."""
    evidence = good_evidence()
    evidence.sent = [sent(0, key=NO_KEY), sent(1, key=NO_KEY)]
    evidence.logged = [logged(0, 1, key=NO_KEY), logged(1, 0, key=NO_KEY)]
    assert [each.rule for each in order.find_disorder_in_logs(evidence)] == [order.BY_PARTITION]
    evidence.happened = [happened("kill broker", 0, 1, "broker-2")]
    assert not list(order.find_disorder_in_logs(evidence))
    for concerned in ("broker-2", sent(0).message.producer):
        evidence.happened = [happened("clock steps", 0, 1, concerned)]
        for evidence.is_secure in (True, False):  # over TLS, a certificate is refused whose time has not come
            assert bool(list(order.find_disorder_in_logs(evidence))) is not evidence.is_secure
    evidence.sent = [sent(0, key=NO_KEY, named="0-0"), sent(1, key=NO_KEY, named="0-0")]
    assert [each.rule for each in order.find_disorder_in_logs(evidence)] == [order.BY_KEY]


def test_a_group_is_handed_messages_in_another_order() -> None:
    """First deliveries of a partition come in the order of offsets, whoever gets them."""
    evidence = good_evidence()
    evidence.members[A].receipts[:] = [receipt(A, 1, 1), receipt(A, 2, 0)]
    assert rules(evidence) == {order.DELIVERED}
    evidence.members[A].receipts[:] = [receipt(A, 1, 0), receipt(A, 2, 1), receipt(A, 3, 0)]
    assert order.DELIVERED not in rules(evidence)


def test_two_members_hand_out_one_partition() -> None:
    """Once another member was assigned a partition, its former owner hands out nothing more of it."""
    evidence = good_evidence()
    evidence.members[B].tenures.append(tenure(B, 1.5, "assigned"))
    assert [each.text for each in ownership.find_double_ownership(evidence)] == [
        f"growing: {A} handed out chaos-1/0-0@100+0 0.50 s after {B} had it"
    ]
    evidence.members[A].tenures.append(tenure(A, 1.7, "assigned"))  # given back in between
    assert not list(ownership.find_double_ownership(evidence))


def test_two_groups_hand_out_one_partition() -> None:
    """Groups do not share partitions."""
    evidence = good_evidence()
    evidence.groups = {GROUP: [A], "steady": [B]}
    evidence.members[B].tenures.append(tenure(B, 1.5, "assigned"))
    assert not list(ownership.find_double_ownership(evidence))


def test_a_partition_that_was_not_assigned() -> None:
    """Nobody hands out a partition before it was assigned."""
    evidence = good_evidence()
    evidence.members[A].tenures[0] = tenure(A, 1.5, "assigned")
    assert [each.rule for each in ownership.find_double_ownership(evidence)] == [ownership.NOT_OWNED]


def test_a_member_that_was_stopped() -> None:
    """It may write down one message that it was handed before it was stopped, and no more."""
    evidence = good_evidence()
    evidence.happened = [happened("pause member", 1.5, 9.0, A)]
    evidence.members[B].tenures.append(tenure(B, 5.0, "assigned"))
    evidence.members[A].receipts[1] = receipt(A, 9.01, 1)
    assert not list(ownership.find_double_ownership(evidence))
    evidence.members[A].receipts.append(receipt(A, 9.02, 2))
    assert [each.rule for each in ownership.find_double_ownership(evidence)] == [ownership.TWO_OWNERS]
    evidence.members[A].tenures.append(tenure(A, 9.005, "assigned"))  # what it was handed then is of its new tenure
    assert not list(ownership.find_double_ownership(evidence))


def test_a_message_lies_twice() -> None:
    """Only a message that was sent again because of its broker's or its producer's fault may."""
    evidence = good_evidence()
    evidence.logged.append(logged(2, 1))
    assert rules(evidence) == {repeats.LIES_TWICE}
    evidence.happened = [happened("kill broker", 1, 2, "broker-0")]
    assert rules(evidence) == {repeats.LIES_TWICE}  # its producer says that it was sent once
    evidence.sent[1] = evidence.sent[1]._replace(resends=1)
    assert repeats.repeats_in_logs(evidence) == ({f"{repeats.SENT_AGAIN}: kill broker": 1}, [])
    evidence.happened = [happened("kill broker", 1, 2, "broker-1")]
    assert rules(evidence) == {repeats.LIES_TWICE}


def came_twice(again_by: str = B) -> Evidence:
    """Return evidence in which the second message came again after ten seconds."""
    evidence = good_evidence()
    evidence.members[again_by].tenures.append(tenure(again_by, 10, "assigned"))
    evidence.members[again_by].receipts.append(receipt(again_by, 11, 1))
    return evidence


def test_a_message_comes_twice() -> None:
    """Nothing explains it where nothing happened."""
    assert rules(came_twice()) == {repeats.CAME_TWICE}
    assert rules(came_twice(A)) == {repeats.CAME_TWICE}


def causes(evidence: Evidence) -> dict[str, int]:
    counted, wrong = repeats.repeats_in_group(evidence, GROUP)
    assert not wrong
    return counted


def test_a_message_comes_twice_since_its_member_was_killed() -> None:
    """What a killed member had not committed comes again; what others had does not."""
    evidence = came_twice()
    evidence.killed_s = {B: 5.0}
    assert rules(evidence) == {repeats.CAME_TWICE}
    evidence.killed_s = {A: 5.0}
    assert causes(evidence) == {repeats.KILLED: 1}
    evidence.members[A].receipts.append(receipt(A, 3, 2))
    evidence.members[A].tenures.append(tenure(A, 4, "revoked"))  # given up in order before
    assert rules(evidence) >= {repeats.CAME_TWICE}


def test_a_message_comes_twice_since_a_session_ended() -> None:
    """What was not committed when a session ended comes again, if a fault explains that end."""
    evidence = came_twice()
    evidence.members[A].tenures.append(tenure(A, 12, "lost"))
    assert rules(evidence) == {repeats.CAME_TWICE}
    evidence.happened = [happened("pause member", 3, 9, B)]
    assert rules(evidence) == {repeats.CAME_TWICE}
    evidence.happened = [happened("join", 3, 9, A)]
    assert rules(evidence) == {repeats.CAME_TWICE}
    evidence.happened = [happened("pause member", 3, 9, A)]
    assert causes(evidence) == {f"{repeats.SESSION_ENDED}: pause member": 1}


def test_a_message_comes_twice_since_the_session_of_a_member_ended_that_was_killed_later() -> None:
    """It could not tell that it had lost its partitions any more; without the fault nothing explains it."""
    evidence = came_twice()
    evidence.killed_s = {A: 100.0}
    assert rules(evidence) == {repeats.CAME_TWICE}
    evidence.happened = [happened("pause member", 3, 9, A)]
    assert causes(evidence) == {f"{repeats.SESSION_ENDED}: pause member": 1}


def test_a_message_comes_twice_since_it_was_in_hand() -> None:
    """What the application had in hand when a partition was given up comes again, and nothing before that."""
    evidence = came_twice()
    evidence.members[A].tenures.append(tenure(A, 5, "revoked"))
    assert causes(evidence) == {repeats.IN_HAND: 1}
    evidence.members[A].receipts.append(receipt(A, 3, 2))
    assert rules(evidence) >= {repeats.CAME_TWICE}


def test_a_message_comes_twice_since_its_commit_was_not_answered() -> None:
    """A partition that is given up while ZooKeeper is away may not have been committed."""
    evidence = came_twice()
    evidence.members[A].tenures.append(tenure(A, 5, "revoked"))
    evidence.members[A].receipts.append(receipt(A, 3, 2))
    evidence.happened = [happened("ensemble down", 2, 9, "zookeeper-1", "zookeeper-2", "zookeeper-3")]
    assert causes(evidence) == {f"{repeats.NOT_ANSWERED}: ensemble down": 1}


def test_a_message_comes_twice_since_nobody_committed_it() -> None:
    """A member that commits by hand leaves without a commit."""
    evidence = came_twice()
    evidence.members[A].tenures.append(tenure(A, 5, "revoked"))
    evidence.members[A].receipts.append(receipt(A, 3, 2))
    evidence.members[A].others.append(("X", 6.0, "{}"))
    evidence.styles[A] = "by-hand"
    assert causes(evidence) == {repeats.LEFT_BY_HAND: 1}
    evidence.members[A].tenures.append(tenure(A, 5.5, "assigned"))  # what it gave up before it left was committed
    assert rules(evidence) >= {repeats.CAME_TWICE}


def test_a_message_comes_twice_after_an_error() -> None:
    """After an error a stream goes on where the application was."""
    evidence = good_evidence()
    evidence.members[A].receipts.append(receipt(A, 4, 1))
    evidence.members[A].others.append(("E", 3.0, "InvalidMessageError"))
    assert causes(evidence) == {repeats.AFTER_ERROR: 1}


def test_a_former_owner_commits() -> None:
    """An offset is written by the session whose owner node stands."""
    evidence = good_evidence()
    evidence.registry.commits.append(commit(3, 2, owner_id=8))
    evidence.registry.commits.append(commit(3, 2, owner_id=0))
    assert [each.rule for each in commits.find_wrong_commits(evidence)] == [commits.NOT_THE_OWNER] * 2


def test_a_commit_goes_too_far() -> None:
    """What is committed was handed out before, or is where a log's segment begins."""
    evidence = good_evidence()
    evidence.registry.commits = [commit(1.5, 2)]
    assert [each.rule for each in commits.find_wrong_commits(evidence)] == [commits.TOO_FAR]
    evidence.starts[WHERE].add(200)
    assert not list(commits.find_wrong_commits(evidence))


def test_a_member_hands_out_without_its_node() -> None:
    """What is handed out is owned in ZooKeeper, by the same member."""
    evidence = good_evidence()
    assert not list(commits.find_missing_leases(evidence))
    evidence.registry.owned[0] = owned(A, 0, 1.5)
    assert [each.text for each in commits.find_missing_leases(evidence)] == [
        "growing: growing-1 handed out chaos-1/0-0@100+0 at 2.00, 0.50 s after its node had gone"
    ]
    evidence.registry.owned[0] = owned(A, 1.1)
    assert [each.rule for each in commits.find_missing_leases(evidence)] == [commits.WITHOUT_A_LEASE]


def test_how_long_a_group_is_behind() -> None:
    """It is behind while something that was confirmed a second ago has not come, by all of it together."""
    evidence = good_evidence()
    evidence.sent = [sent(0), sent(1), sent(2), sent(50)]
    evidence.members[A].receipts[:] = [receipt(A, 5, 0), receipt(A, 6, 1), receipt(A, 9, 2)]
    assert settling.behind(evidence, GROUP) == [(1.1, 9.0), (51.1, 100.0)]
    evidence.happened = [happened("kill broker", 0, 2, "broker-0"), happened("kill broker", 10, 12, "broker-0")]
    assert [each.seconds for each in settling.settle_times(evidence)] == [7.0, 0.0]
    evidence.logged.append(logged(5, 50)._replace(gone="retention"))
    assert settling.behind(evidence, GROUP) == [(1.1, 9.0)]


def test_a_process_did_not_behave() -> None:
    """What went wrong with processes themselves is a violation too."""
    evidence = good_evidence()
    evidence.troubles = ["growing-1 ended with status 1"]
    assert rules(evidence) == {TROUBLE}


def test_places_are_told_apart() -> None:
    """The same offset in another partition is another place."""
    evidence = good_evidence()
    other = TopicPartition("chaos-1", 1, 0)
    evidence.members[A].receipts[1] = receipt(A, 2, 1)._replace(place=Place(other, 100, 0))
    assert messages.GONE in rules(evidence)
    assert place(1).where == WHERE != other
    assert message(1) == message(1)


def test_a_process_grows() -> None:
    """Threads, files and memory in the end are those of the first seconds; a short life proves nothing."""
    evidence = good_evidence()
    evidence.healed_s = 90.0
    evidence.samples = [sample(0, 5, 20, 10**7), sample(5, 10, 30, 10**8), sample(50, 90, 900, 10**9)]
    evidence.samples.append(sample(95, 16, 70, 16 * 10**7))
    assert not list(resources.find_growth(evidence))
    assert resources.most_growth(evidence) == {"threads": 6, "files": 40, "memory_bytes": 6 * 10**7}
    evidence.samples.append(sample(96, 17, 71, 17 * 10**7))
    assert [each.text.partition(": ")[2].split()[0] for each in resources.find_growth(evidence)] == [
        "threads",
        "files",
        "memory_bytes",
    ]
    evidence.samples = [sample(60, 5, 20, 10**7), sample(96, 500, 2000, 10**9)]
    assert not list(resources.find_growth(evidence))


def test_what_is_known_to_be_gone() -> None:
    """What retention or a flipped bit removed may be missed, but not what lies elsewhere too."""
    evidence = good_evidence()
    evidence.logged[1] = logged(1)._replace(gone="retention")
    assert rules(evidence) == set()
    evidence.members[A].receipts.pop()
    evidence.registry.commits.pop()
    assert rules(evidence) == set()
    assert messages.count_missed(evidence, GROUP) == {"retention": 1}
    evidence.logged.append(logged(2, 1))
    assert messages.NOT_RECEIVED in rules(evidence)
