"""Orders of events that random walks hardly ever take, and in which a rule is needed all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafka2011.replica.known import Known
from tests.models.replica.process import MAX_LAG_S
from tests.models.replica.world import PARTITIONS, Client, World, calm

if TYPE_CHECKING:
    from tests.models.replica.process import Disk, Process


def _roles(world: World) -> tuple[Process, Process, Process]:
    leader = next(process for process in world.processes if process.is_serving)
    one, other = (process for process in world.processes if process is not leader)
    return leader, one, other


def _connected(world: World, leader: Process) -> Client:
    assert leader.term is not None
    client = Client(leader, leader.life, leader.term.new_client())
    world.clients.append(client)
    return client


def _read(follower: Process, leader: Process) -> bool:
    """Have a follower ask and take the answer; tell whether there was one."""
    fetch = follower.ask()
    data = None if fetch is None else leader.answer(fetch)
    if fetch is None or data is None:
        follower.connect_to_leader()  # the connection has ended
        return False
    follower.take(fetch, data)
    return True


def _follow(world: World, process: Process, times: int = 5) -> None:
    """Have a follower ask, with answers, so many times; it flushes before each question but the first."""
    for _ in range(times):
        _read(process, next(each for each in world.processes if each.term is not None))
        process.flush(world.partitions[0])
        world.check()


def _ask_in_vain(world: World, follower: Process, leader: Process) -> None:
    """Have a follower tell what it has, and the answer, with the readable end, be lost."""
    fetch = follower.ask()
    assert fetch is not None
    leader.answer(fetch)
    world.check()


def _compare(world: World, process: Process, leader: Process, times: int = 4) -> None:
    """Have a follower compare, and then tell what it has, and get no answer to that."""
    process.look()
    for _ in range(times):
        fetch = process.ask()
        assert fetch is not None
        data = leader.answer(fetch)
        assert data is not None
        if all(ask.flushed is not None for ask in fetch.asks.values()):
            return
        process.take(fetch, data)


def _be_well(world: World, *processes: Process, times: int) -> None:
    """Have processes do all that they would, in turns."""
    for _ in range(times):
        for process in processes:
            world.be_well(process)


def _leave(world: World, process: Process) -> None:
    """Have a process die, and its session end."""
    process.die()
    world.registry.end(process.session)


def _start_without_power(world: World, leader: Process) -> None:
    """Have a leader start again that lost what was not on its disk, before anybody saw that it was away."""
    leader.die()
    log = leader.disk.logs[world.partitions[0]]
    log.now = log.on_disk
    world.registry.end(leader.session)
    leader.start()
    leader.look()


def _write(world: World, leader: Process) -> None:
    """Have a leader look at who is there, and write who is in sync."""
    leader.look()
    for _ in range(6):  # a write may be lost
        leader.write_state()
        world.registry.go_on()
    world.check()


def _without_one() -> tuple[World, Process, Process, Process]:
    """Return a world in which one replica is away, and a message is readable that it has not."""
    world = calm()
    leader, one, other = _roles(world)
    _leave(world, other)
    _write(world, leader)
    world.send(_connected(world, leader), world.partitions[0], b"s1")
    leader.flush(world.partitions[0])
    assert _read(one, leader)
    one.flush(world.partitions[0])
    return world, leader, one, other


def a_leader_without_power_comes_back() -> World:
    """Its followers have on disk what it had only in its page cache, and never look up while it is away."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    client = _connected(world, leader)
    world.send(client, where, b"s7")
    for follower in (one, other):
        _follow(world, follower)
    _start_without_power(world, leader)
    if leader.term is not None:
        world.send(_connected(world, leader), where, b"s1")
        leader.flush(where)
        for follower in (one, other):
            _follow(world, follower)
    world.rest()
    return world


def a_request_is_late() -> World:
    """Have it say what its sender has fsynced, after the leader has lost that and begun anew."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    world.send(_connected(world, leader), where, b"s1")
    _follow(world, one)
    late = one.ask()
    assert late is not None
    _start_without_power(world, leader)
    world.send(_connected(world, leader), where, b"s2")
    leader.flush(where)
    other.look()
    _follow(world, other)
    leader.answer(late)
    _write(world, leader)
    _leave(world, leader)
    one.look()
    world.rest()
    return world


def power_fails_after_a_cut() -> World:
    """Have what was cut be there again, below what is known to have been readable elsewhere."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    world.send(_connected(world, leader), where, b"s5")
    leader.flush(where)
    _leave(world, leader)
    _be_well(world, one, other, times=8)
    second = next(process for process in (one, other) if process.is_serving)
    world.send(_connected(world, second), where, b"s6")
    _be_well(world, one, other, times=8)
    world.check()
    leader.start()
    leader.look()
    log = leader.disk.logs[where]
    for _ in range(12):
        _read(leader, second)
    leader.persist()
    world.check()
    leader.die()
    log.now = log.on_disk
    world.rest()
    return world


def one_comes_back_after_a_takeover() -> World:
    """Have the new leader know of less than was readable, and nobody else have that yet."""
    world, leader, one, other = _without_one()
    _ask_in_vain(world, one, leader)
    _leave(world, leader)
    one.look()
    other.start()
    _compare(world, other, one)
    _write(world, one)
    _leave(world, one)
    other.look()
    world.rest()
    return world


def one_comes_back_with_too_little() -> World:
    """Have it ask a leader that has gone on since it took over."""
    world, leader, one, other = _without_one()
    _ask_in_vain(world, one, leader)
    other.start()
    _compare(world, other, leader)
    _write(world, leader)
    _leave(world, leader)
    _leave(world, one)
    other.look()
    world.rest()
    return world


def one_comes_back_without_a_partition() -> World:
    """Have it have all of another one."""
    world = calm()
    world.partitions = PARTITIONS
    leader, one, other = _roles(world)
    _leave(world, other)
    _write(world, leader)
    world.send(_connected(world, leader), PARTITIONS[1], b"s1")
    leader.flush(PARTITIONS[1])
    for _ in range(6):
        _follow(world, one, times=1)
        one.flush(PARTITIONS[1])
    other.start()
    _compare(world, other, leader)
    _write(world, leader)
    _leave(world, leader)
    _leave(world, one)
    other.look()
    world.rest()
    return world


def one_in_sync_starts_again_and_leads() -> World:
    """Have it not know yet that what it has is readable."""
    world, leader, one, _ = _without_one()
    world.registry.history.append(replace(world.registry.now, floor=None))  # else that tells that too much was cut
    _ask_in_vain(world, one, leader)
    one.die()
    one.start()
    _compare(world, one, leader)
    _leave(world, leader)
    one.look()
    one.look()
    world.rest()
    return world


def a_connection_sees_two_changes_of_leader() -> World:
    """Have what it sent be cut in between, and something else stand there."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    client = _connected(world, leader)
    world.send(client, where, b"s1")
    client.waiting.append((client.account.barrier(), list(client.sent)))
    world.registry.end(leader.session)
    leader.look()
    for process in (one, other):
        process.look()
    world.send(_connected(world, one), where, b"s2")
    one.flush(where)
    leader.look()
    for _ in range(3):
        for process in (leader, other):
            _follow(world, process)
    _leave(world, one)
    _be_well(world, leader, other, times=3)
    world.clients = [client]
    world.confirm()
    world.rest()
    return world


def an_old_leader_is_asked_for_what_it_never_had() -> World:
    """Have its session have ended, which it has not noticed."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    world.registry.end(leader.session)
    _be_well(world, one, other, times=3)
    world.send(_connected(world, one), where, b"s1")
    _be_well(world, one, other, times=3)
    world.check()
    world.fetch(leader, where)
    assert world.counts["fetches: close"] == 1
    world.rest()
    return world


def an_operator_accepts_a_loss() -> World:
    """Have the replica that had more come back after that."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    for process in (one, other):
        _leave(world, process)
    _write(world, leader)
    world.send(_connected(world, leader), where, b"s1")
    world.be_well(leader)
    world.check()
    leader.persist()
    _leave(world, leader)
    world.elect(one.me)
    one.start()
    _be_well(world, one, times=3)
    world.send(_connected(world, one), where, b"s2")
    world.rest()
    return world


def all_but_an_empty_segment_is_deleted() -> World:
    """Have the one who did that follow one who did not roll there, and then lead again."""
    world = calm()
    leader, one, _ = _roles(world)
    where = world.partitions[0]
    world.registry.history.append(replace(world.registry.now, floor=None))  # else that tells that too much was deleted
    leader.roll(where)
    leader.retain(where)
    world.registry.end(leader.session)
    leader.look()
    one.look()
    leader.look()
    _compare(world, leader, one)
    _leave(world, one)
    leader.look()
    leader.look()
    world.rest()
    return world


# State that goes back


def _confirm(world: World, leader: Process, message: bytes) -> None:
    """Have a message be readable at the leader and on all disks, and its sender told so."""
    client = _connected(world, leader)
    world.send(client, world.partitions[0], message)
    client.waiting.append((client.account.barrier(), list(client.sent)))
    _be_well(world, *world.processes, times=3)
    world.clients = [client]
    world.confirm()


def _put_back(world: World, process: Process, disk: Disk, after_s: float = 2 * MAX_LAG_S) -> None:
    """Have a process that is down start with another disk; a leader's patience is over by then if nothing is said."""
    assert not process.is_alive
    world.registry.end(process.session)
    process.disk = disk
    world.now_s += after_s
    process.start()


def _back_at_once() -> tuple[World, Process, Process]:
    """Return a world in which a follower came back with an older disk before anybody saw that it was away."""
    world = calm()
    leader, one, _ = _roles(world)
    copy = one.disk.copy()
    _confirm(world, leader, b"s1")
    one.die()
    _put_back(world, one, copy, after_s=0)
    return world, leader, one


def _lead_by(world: World, process: Process) -> None:
    """Have the leader start again, and another one lead meanwhile; all are in sync at the end."""
    leader = next(each for each in world.processes if each.term is not None)
    _leave(world, leader)
    process.look()
    leader.start()
    _be_well(world, *world.processes, times=8)
    assert process.is_serving


def _heard_of_less(world: World, follower: Process, leader: Process) -> None:
    """Have a follower whose disk has gone back compare and tell what it has, and then its leader be away."""
    leader.look()
    if follower.following is None:
        follower.look()
    if follower.following is not None:
        _compare(world, follower, leader, times=3)
    _write(world, leader)
    _leave(world, leader)
    follower.look()
    follower.flush(world.partitions[0])
    world.check()
    world.rest()


def a_follower_s_disk_goes_back() -> World:
    """Have it ask before anybody saw that it was away, and its leader be away after that."""
    world, leader, one = _back_at_once()
    _heard_of_less(world, one, leader)
    return world


def the_end_of_a_disk_is_lost() -> World:
    """Have a follower not have what it had fsynced, within one segment."""
    world = calm()
    leader, one, _ = _roles(world)
    _confirm(world, leader, b"s1")
    one.die()
    disk = one.disk.copy()
    disk.known = Known(one.me, disk.known.epoch)
    disk.logs[world.partitions[0]].lose_end(1)
    _put_back(world, one, disk, after_s=0)
    _heard_of_less(world, one, leader)
    return world


def a_request_of_before_is_late() -> World:
    """Have it say what the disk had before it went back, after what it has now was heard."""
    world = calm()
    leader, one, _ = _roles(world)
    copy = one.disk.copy()
    _confirm(world, leader, b"s1")
    late = one.ask()
    assert late is not None
    one.die()
    _put_back(world, one, copy, after_s=0)
    one.look()
    if one.following is not None:
        _compare(world, one, leader, times=3)
    leader.answer(late)
    _heard_of_less(world, one, leader)
    return world


def a_request_of_before_is_late_within_an_epoch() -> World:
    """Have no floor be noted: only what the follower says now tells that its disk has gone back."""
    world = calm()
    leader, one, _ = _roles(world)
    where = world.partitions[0]
    copy = one.disk.copy()
    world.send(_connected(world, leader), where, b"s1")
    leader.flush(where)
    for follower in (one, *(each for each in world.processes if each not in {leader, one})):
        _follow(world, follower)
    late = one.ask()
    assert late is not None
    one.die()
    _put_back(world, one, copy, after_s=0)
    one.look()
    assert one.following is not None
    _compare(world, one, leader, times=3)
    leader.answer(late)
    _write(world, leader)
    _leave(world, leader)
    one.look()
    world.check()
    world.rest()
    return world


def a_disk_goes_back_within_an_epoch_that_no_floor_tells() -> World:
    """Have the leader hear of it, by a new connection, before it is away."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    copy = one.disk.copy()
    world.send(_connected(world, leader), where, b"s1")
    leader.flush(where)
    for follower in (one, other):
        _follow(world, follower)
    one.die()
    _put_back(world, one, copy, after_s=0)
    one.look()
    assert one.following is not None
    _compare(world, one, leader, times=3)
    _write(world, leader)
    _leave(world, leader)
    one.look()
    world.check()
    world.rest()
    return world


def _start_alone(world: World, process: Process, disk: Disk) -> None:
    """Have all be down, and one start with another disk, before the others come."""
    for each in world.processes:
        if each.is_alive:
            _leave(world, each)
    _put_back(world, process, disk)
    process.look()
    process.look()
    world.check()
    assert process.term is None
    world.rest()


def a_disk_goes_back_and_starts_alone() -> World:
    """Have it be of before an epoch that all in sync had on disk."""
    world = calm()
    _, one, _ = _roles(world)
    copy = one.disk.copy()
    _lead_by(world, one)
    _start_alone(world, one, copy)
    return world


def a_disk_goes_back_within_an_epoch() -> World:
    """Have it start alone: only the floor tells."""
    world = calm()
    leader, one, _ = _roles(world)
    copy = one.disk.copy()
    _confirm(world, leader, b"s1")
    _start_alone(world, one, copy)
    return world


def what_a_disk_had_more_is_of_another_line() -> World:
    """Have a copy be longer than the line, with an end that was cut since."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    for message in (b"s1", b"s2"):
        world.send(_connected(world, leader), where, message)
    leader.flush(where)
    copy = leader.disk.copy()
    _leave(world, leader)
    _be_well(world, one, other, times=8)
    leader.start()
    _be_well(world, leader, one, other, times=8)
    _confirm(world, next(each for each in world.processes if each.is_serving), b"s3")
    _start_alone(world, leader, copy)
    return world


def a_disk_goes_back_to_before_a_takeover() -> World:
    """Have all have what was sent since, and the new leader not have said that they know its epoch."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    copy = other.disk.copy()
    _leave(world, leader)
    leader.start()
    one.look()
    for follower in (leader, other):
        follower.look()
        _follow(world, follower)
    world.send(_connected(world, one), where, b"s1")
    one.flush(where)
    for follower in (leader, other):
        _follow(world, follower)
    world.check()
    for each in world.processes:
        _leave(world, each)
    _put_back(world, other, copy)
    other.look()
    world.check()
    world.rest()
    return world


def one_that_went_back_starts_and_its_leader_is_lost() -> World:
    """Have it look while its leader is there, before it is put out, and again when nobody leads."""
    world = calm()
    leader, one, _ = _roles(world)
    copy = one.disk.copy()
    _lead_by(world, next(each for each in world.processes if each not in {leader, one}))
    leader = next(each for each in world.processes if each.is_serving)
    world.send(_connected(world, leader), world.partitions[0], b"s1")
    leader.flush(world.partitions[0])
    for follower in world.processes:
        if follower is not leader:
            _follow(world, follower)
    one.die()
    _put_back(world, one, copy)
    one.look()
    assert one.following is None
    _leave(world, leader)
    one.look()
    world.check()
    world.rest()
    return world


def two_takeovers_in_a_row() -> World:
    """Have the second be by one that the first has not heard: its disk is as it should be."""
    world = calm()
    leader, one, other = _roles(world)
    _leave(world, leader)
    one.look()
    _write(world, one)
    _leave(world, one)
    other.look()
    assert other.term is not None
    world.rest()
    return world


def one_in_sync_starts_again_quickly() -> World:
    """Have it be in sync all the time: its disk is as it was."""
    world = calm()
    leader, one, _ = _roles(world)
    _confirm(world, leader, b"s1")
    one.die()
    world.registry.end(one.session)
    one.start()
    version = world.registry.now.version
    one.look()
    for _ in range(4):
        _write(world, leader)
        _follow(world, one, times=1)
    assert world.registry.now.version == version
    world.rest()
    return world


def what_differs_below_the_readable_end_is_kept() -> World:
    """Have a follower have another message there than its leader, of the same length: either may be right."""
    world = calm()
    leader, one, _ = _roles(world)
    _confirm(world, leader, b"s1")
    one.persist()
    one.die()
    log = one.disk.logs[world.partitions[0]]
    log.now = ((0, b"s0s9"),)
    one.start()
    one.look()
    why = ""
    try:
        for _ in range(8):
            _read(one, leader)
    except AssertionError as error:
        why = str(error)
    assert "another message" in why
    assert log.now == ((0, b"s0s9"),)
    return world


def one_who_went_away_comes_back_with_an_older_disk() -> World:
    """Have its leader have seen it go, within its patience, and see it come before it says anything."""
    world = calm()
    leader, one, _ = _roles(world)
    copy = one.disk.copy()
    _confirm(world, leader, b"s1")
    late = one.ask()
    assert late is not None
    _leave(world, one)
    _write(world, leader)
    assert one.me not in world.registry.now.state.in_sync
    _put_back(world, one, copy, after_s=0)
    leader.answer(late)
    _write(world, leader)
    assert one.me not in world.registry.now.state.in_sync, "it has said nothing since it came back"
    world.rest()
    return world


def one_comes_back_with_an_older_disk_between_two_looks() -> World:
    """Have its leader see only that another session made its node, which says at first that it has gone back."""
    world, leader, one = _back_at_once()
    assert leader.term is not None
    nodes = world.registry.now
    leader.term.note_members(nodes.seen.keys() - {one.me}, nodes.sessions)
    for _ in range(6):
        leader.write_state()
        world.registry.go_on()
    assert one.me not in world.registry.now.state.in_sync
    _write(world, leader)
    assert one.me not in world.registry.now.state.in_sync, "it has said nothing since it came back"
    world.rest()
    return world


def what_a_follower_said_long_ago_counts_no_more() -> World:
    """Have it come back without that, and its leader get no answer to the write that puts it out."""
    world = calm()
    leader, one, other = _roles(world)
    where = world.partitions[0]
    world.send(_connected(world, leader), where, b"s1")
    for follower in (one, other):
        _follow(world, follower)
    for follower in (one, other):
        follower.die()
    disk = one.disk.copy()
    disk.logs[where].lose_end(1)
    world.now_s += 2 * MAX_LAG_S
    world.registry.end(one.session)
    one.disk = disk
    one.start()
    leader.write_state()
    assert leader.sent is not None
    leader.flush(where)
    assert leader.term is not None
    leader.term.advance(world.now_s)
    world.check()
    leader.sent.outcome = "lost"
    world.registry.end(leader.session)
    leader.die()
    one.look()
    world.rest()
    return world


def _zookeeper_back(world: World, takeovers: int = 0) -> tuple[Process, Process]:
    """Have the leader confirm what only it has, and ZooKeeper go back to when others were in sync. All are down then.

    Of `takeovers` in between it loses its session each time, and takes the lead again.
    """
    leader, one, other = _roles(world)
    nodes = world.registry.now
    for process in (one, other):
        _leave(world, process)
    _write(world, leader)
    _confirm_alone(world, leader, b"s1")
    for _ in range(takeovers):
        world.registry.end(leader.session)
        for _ in range(2):
            leader.look()
    leader.die()
    world.restore_zookeeper(nodes)
    return leader, one


def _confirm_alone(world: World, leader: Process, message: bytes) -> None:
    """Have a message be confirmed by a leader that waits for nobody."""
    world.now_s += 2 * MAX_LAG_S
    _be_well(world, leader, times=4)
    client = _connected(world, leader)
    world.send(client, world.partitions[0], message)
    client.waiting.append((client.account.barrier(), list(client.sent)))
    _be_well(world, leader, times=3)
    world.clients = [client]
    world.confirm()
    assert not client.waiting


def zookeeper_goes_back(takeovers: int = 0) -> World:
    """Have one that was in sync look first, while the one that went on alone is a member."""
    world = calm()
    leader, one = _zookeeper_back(world, takeovers)
    one.start()
    leader.start()
    _be_well(world, one, leader, times=4)
    assert one.term is leader.term is None
    world.rest()
    return world


def zookeeper_goes_back_and_one_leads_alone() -> World:
    """Have the one with more come when another has gone on from there, to the same epoch and version and beyond."""
    world = calm()
    leader, one = _zookeeper_back(world, takeovers=1)
    one.start()
    _be_well(world, one, times=4)
    assert one.is_serving, "it cannot know"
    for number in range(3):
        _confirm_alone(world, one, b"x%d" % number)
        world.registry.end(one.session)
        _be_well(world, one, times=4)
    leader.start()
    _be_well(world, one, leader, times=4)
    assert one.term is leader.term is None
    world.rest()
    return world


def one_who_was_not_in_sync_knows_as_much() -> World:
    """Have one have seen the newest state without having what was readable in it."""
    world = calm()
    leader, _ = _zookeeper_back(world)
    other = world.processes[-1]
    other.disk.known = replace(other.known, seen=leader.known.newest_seen._replace(is_in_sync=False))
    assert other.me > leader.me
    world.rest()
    return world


def zookeeper_goes_back_by_two_epochs() -> World:
    """Have who is elected lead in an epoch that is newer than those."""
    return zookeeper_goes_back(takeovers=2)


def zookeeper_goes_back_within_an_epoch() -> World:
    """Have the one who had been put out lead next, from the version at which it was not out yet."""
    world = calm()
    leader, one = _zookeeper_back(world)
    one.start()
    one.look()
    assert one.term is not None
    assert world.registry.now.version <= leader.known.newest_seen.version
    leader.start()
    _be_well(world, one, leader, times=4)
    assert one.term is leader.term is None
    world.rest()
    return world


def one_who_knows_comes_during_a_takeover() -> World:
    """Have one who has seen a newer state come between another one's look and its takeover."""
    world = calm()
    leader, one = _zookeeper_back(world)
    one.start()
    nodes = world.registry.now
    leader.start()
    one.act_on(nodes)
    assert one.term is None
    assert world.counts["waits: ZooKeeper has gone back, as is seen after a takeover"] == 1
    world.rest()
    return world


def _delete(world: World) -> Process:
    """Have the topic deleted, and return who leads then."""
    next(process for process in world.processes if process.term is not None).delete(world.partitions[0].topic)
    assert world.counts["topics deleted"] == 1
    _be_well(world, *(process for process in world.processes if process.is_alive), times=8)
    world.check()
    serving = [process for process in world.processes if process.is_serving]
    assert len(serving) == 1
    return serving[0]


def a_topic_is_deleted_and_made_again() -> World:
    """Have a message of the new one be at its leader alone, which starts again, leads, and is lost with its disk."""
    world = calm()
    where = world.partitions[0]
    leader = _delete(world)
    assert where not in leader.disk.logs
    world.send(_connected(world, leader), where, b"n1")
    leader.flush(where)
    world.clients.clear()
    _leave(world, leader)
    leader.start()
    leader.look()
    world.check()
    assert leader.term is not None
    assert leader.term.readable(where) == 0
    _leave(world, leader)
    leader.disk = world.new_disk(leader.name)
    world.rest()
    return world


def one_that_was_away_finds_a_topic_deleted() -> World:
    """Have the new topic be longer by then than the old one was."""
    world = calm()
    leader, _, other = _roles(world)
    _leave(world, other)
    _write(world, leader)
    leader = _delete(world)
    client = _connected(world, leader)
    for message in (b"n1", b"n2"):
        world.send(client, world.partitions[0], message)
    _be_well(world, *(process for process in world.processes if process.is_alive), times=4)
    world.clients.clear()
    other.start()
    world.rest()
    return world


def a_disk_goes_back_after_a_topic_was_deleted() -> World:
    """Have it start alone: only the floor tells, which was higher before the deletion."""
    world = calm()
    leader, one, _ = _roles(world)
    for message in (b"s1", b"s2", b"s3"):
        _confirm(world, leader, message)
    leader = _delete(world)
    _confirm(world, leader, b"n1")
    copy = one.disk.copy()
    _confirm(world, leader, b"n2")
    _start_alone(world, one, copy)
    return world


SCENARIOS = {
    "a connection sees two changes of leader": a_connection_sees_two_changes_of_leader,
    "a leader without power comes back": a_leader_without_power_comes_back,
    "a request is late": a_request_is_late,
    "a topic is deleted and made again": a_topic_is_deleted_and_made_again,
    "one that was away finds a topic deleted": one_that_was_away_finds_a_topic_deleted,
    "a disk goes back after a topic was deleted": a_disk_goes_back_after_a_topic_was_deleted,
    "all but an empty segment is deleted": all_but_an_empty_segment_is_deleted,
    "an old leader is asked for what it never had": an_old_leader_is_asked_for_what_it_never_had,
    "an operator accepts a loss": an_operator_accepts_a_loss,
    "one comes back after a takeover": one_comes_back_after_a_takeover,
    "one comes back with too little": one_comes_back_with_too_little,
    "one comes back without a partition": one_comes_back_without_a_partition,
    "one in sync starts again and leads": one_in_sync_starts_again_and_leads,
    "power fails after a cut": power_fails_after_a_cut,
    "a disk goes back and starts alone": a_disk_goes_back_and_starts_alone,
    "a disk goes back to before a takeover": a_disk_goes_back_to_before_a_takeover,
    "a disk goes back within an epoch": a_disk_goes_back_within_an_epoch,
    "a disk goes back within an epoch that no floor tells": a_disk_goes_back_within_an_epoch_that_no_floor_tells,
    "a follower's disk goes back": a_follower_s_disk_goes_back,
    "a request of before is late": a_request_of_before_is_late,
    "a request of before is late within an epoch": a_request_of_before_is_late_within_an_epoch,
    "one in sync starts again quickly": one_in_sync_starts_again_quickly,
    "one that went back starts and its leader is lost": one_that_went_back_starts_and_its_leader_is_lost,
    "the end of a disk is lost": the_end_of_a_disk_is_lost,
    "two takeovers in a row": two_takeovers_in_a_row,
    "what a disk had more is of another line": what_a_disk_had_more_is_of_another_line,
    "what differs below the readable end is kept": what_differs_below_the_readable_end_is_kept,
    "ZooKeeper goes back": zookeeper_goes_back,
    "ZooKeeper goes back and one leads alone": zookeeper_goes_back_and_one_leads_alone,
    "one who was not in sync knows as much": one_who_was_not_in_sync_knows_as_much,
    "ZooKeeper goes back by two epochs": zookeeper_goes_back_by_two_epochs,
    "ZooKeeper goes back within an epoch": zookeeper_goes_back_within_an_epoch,
    "one who knows comes during a takeover": one_who_knows_comes_during_a_takeover,
    "what a follower said long ago counts no more": what_a_follower_said_long_ago_counts_no_more,
    "one who went away comes back with an older disk": one_who_went_away_comes_back_with_an_older_disk,
    "one comes back with an older disk between two looks": one_comes_back_with_an_older_disk_between_two_looks,
}
