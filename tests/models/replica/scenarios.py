"""Orders of events that random walks hardly ever take, and in which a rule is needed all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.models.replica.world import PARTITIONS, Client, World, calm

if TYPE_CHECKING:
    from tests.models.replica.process import Process


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
    leader.write_state()
    world.registry.go_on()
    while leader.term is not None and leader.sent is not None:
        leader.write_state()
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
    world.check()
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
    world._confirm()
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
    now = world.registry.now
    world.registry.history.append(now.write(now.state.elected(one.me), now.version))
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


SCENARIOS = {
    "a connection sees two changes of leader": a_connection_sees_two_changes_of_leader,
    "a leader without power comes back": a_leader_without_power_comes_back,
    "a request is late": a_request_is_late,
    "all but an empty segment is deleted": all_but_an_empty_segment_is_deleted,
    "an old leader is asked for what it never had": an_old_leader_is_asked_for_what_it_never_had,
    "an operator accepts a loss": an_operator_accepts_a_loss,
    "one comes back after a takeover": one_comes_back_after_a_takeover,
    "one comes back with too little": one_comes_back_with_too_little,
    "one comes back without a partition": one_comes_back_without_a_partition,
    "one in sync starts again and leads": one_in_sync_starts_again_and_leads,
    "power fails after a cut": power_fails_after_a_cut,
}
