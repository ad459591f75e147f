"""Java clients that must never end by themselves (Endless.java), what they write down, and the account of that."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zk.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

END_S = 90.0
_ENDED = b"ended"


class Line(NamedTuple):
    """A line that a client wrote: `has`, `got` or `done` of a member, `acked` or `failed` of a producer."""

    at_s: float
    what: bytes
    client: str
    partition: str
    value: bytes


class Acknowledged(NamedTuple):
    """A record that a producer was told is stored, by its value: its Kafka partition and its offset."""

    at_s: float
    value: bytes
    partition: int
    offset: int


def lines_of(path: Path, client: str) -> Iterator[Line]:
    """Yield the lines of a file, without one that is torn; none when there is no file."""
    data = path.read_bytes() if path.exists() else b""
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        at_s, what, partition, value = line.split(b" ", 3)
        if what != _ENDED:
            yield Line(float(at_s), what, client, partition.decode(), value)


def java_command(jars: Path, *arguments: object) -> list[str]:
    """Return the command that runs Endless.java with these arguments."""
    program = Path(__file__).with_name("Endless.java")
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{jars}/*", str(program), *map(str, arguments)]


class EndlessClient:
    """A Java client in a process of its own; a context manager. `stop` ends it in order."""

    def __init__(self, kind: str, name: str, directory: Path, jars: Path, *arguments: object) -> None:
        self.name = name
        self.path = directory / f"{name}.txt"
        command = java_command(jars, kind, self.path, *arguments)
        self.process = ChildProcess(command, directory / f"{name}.err", stop_timeout_s=END_S)

    def stop(self) -> Iterator[str]:
        """End the process, and yield what is wrong: it had ended by itself, does not end, or ends with a failure."""
        if not self.process.running:
            yield f"the Java client {self.name} has ended by itself, with {self.process.poll()}"
            return
        self.process.resume()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_S)
        except TimeoutError:
            yield f"the Java client {self.name} does not end"
            return
        last = self.path.read_bytes().splitlines()[-1:]
        if [line.split(b" ")[1] for line in last] != [_ENDED]:
            yield f"the Java client {self.name} did not end in order"

    def __enter__(self) -> EndlessClient:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()


class EndlessProducer(EndlessClient):
    """Sends records to all partitions: `PREFIX` and the partition, `-`, and a number.

    A record is given up after `patience_ms`, whose default is that of kafka-clients.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        prefix: str,
        name: str,
        directory: Path,
        jars: Path,
        *,
        patience_ms: int = 120_000,
    ) -> None:
        super().__init__("producer", name, directory, jars, servers, topic, partitions, prefix, patience_ms)

    def acknowledged(self) -> Iterator[Acknowledged]:
        """Yield what was acknowledged."""
        for line in lines_of(self.path, self.name):
            if line.what == b"acked":
                value, _, offset = line.value.rpartition(b" ")
                yield Acknowledged(line.at_s, value, int(line.partition), int(offset))

    def problems(self) -> Iterator[str]:
        """Yield which records were given up, and which were acknowledged without an offset."""
        for line in lines_of(self.path, self.name):
            if line.what == b"failed":
                yield f"Java: not acknowledged: {line.value.decode()}"
        for record in self.acknowledged():
            if record.offset < 0:
                yield f"Java: {record.value.decode()} was acknowledged with offset {record.offset}"


class EndlessMember(EndlessClient):
    """A Java consumer that is the member of a group."""

    def __init__(self, servers: str, topic: str, group: str, name: str, directory: Path, jars: Path) -> None:
        super().__init__("member", name, directory, jars, servers, topic, group, name)

    def lines(self) -> Iterator[Line]:
        """Yield what it has written down."""
        return lines_of(self.path, self.name)


def repeated(
    name: str, lines: Sequence[Line], order: Mapping[bytes, tuple[str, int, int]], kinds: Mapping[str, str]
) -> Iterator[str]:
    """Say what members were given of a partition that had been committed before they were given the partition.

    `order` has the partition of each value, its number, and that of the first in its compressed set: whoever reads
    0.7's offsets begins with the compressed set in which the commit lies, and so must those after it.
    """
    set_numbers = {number: set_number for partition, number, set_number in order.values() if partition == name}
    committed = floor = 0
    floors: dict[str, int] = {}  # below which a member must not be given anything, by its name
    for line in lines:
        is_of_07 = kinds[line.client] in {"ours", "of-07"}
        if line.what == b"has":
            if is_of_07:
                floor = set_numbers.get(committed, committed)
            floors[line.client] = floor
            continue
        partition, number, _ = order.get(line.value, ("", 0, 0))
        if partition != name:
            yield f"{line.client}: {line.value!r} is not in partition {name}"
        elif line.what == b"done":
            committed = number + 1
            floor = set_numbers.get(committed, committed) if is_of_07 else committed
        elif number < floors.get(line.client, 0):
            yield f"{line.client}: {line.value!r} of partition {name} came again, {number} below {floors[line.client]}"
