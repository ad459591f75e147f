"""The znodes that brokers and members of Kafka 0.7.2 write, as dumps of the whole tree at some moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Znode(NamedTuple):
    """A znode; the version counts how often its data was written after it was made."""

    path: str
    data: str | None = None
    version: int = 0
    is_ephemeral: bool = False

    @property
    def line(self) -> str:
        """Path, kind, version and data, as a dump shows them."""
        kind = "EPHEMERAL" if self.is_ephemeral else "persistent"
        data = "<null>" if self.data is None else f"[{self.data}]"
        return f"{self.path:<75} {kind:<10} v={self.version} {data}"


def brokers(address: str, version: int = 0, **partitions: int) -> list[Znode]:
    """List the znodes of broker 0: `creator:host:port`, and how many partitions it has of each topic."""
    znodes = [
        Znode("/", ""),
        Znode("/brokers"),
        Znode("/brokers/ids"),
        Znode("/brokers/ids/0", address, version, is_ephemeral=True),
        Znode("/brokers/topics"),
    ]
    for topic, count in partitions.items():
        znodes.append(Znode(f"/brokers/topics/{topic}"))
        znodes.append(Znode(f"/brokers/topics/{topic}/0", str(count), is_ephemeral=True))
    return znodes


def group(
    name: str,
    offsets: Mapping[str, list[tuple[int, int]]],
    members: Mapping[str, str] | None = None,
    owners: Mapping[str, list[str]] | None = None,
) -> list[Znode]:
    """List the znodes of a consumer group.

    `offsets`: of each topic's partitions on broker 0 the next offset, and how often it was committed after the first
    time. `members`: what each subscribes to. `owners`: of each topic's partitions the stream that consumes it.
    """
    root = f"/consumers/{name}"
    znodes = [Znode(root), Znode(f"{root}/ids")]
    znodes += [Znode(f"{root}/ids/{key}", value, is_ephemeral=True) for key, value in (members or {}).items()]
    znodes.append(Znode(f"{root}/offsets"))
    for topic, committed in offsets.items():
        znodes.append(Znode(f"{root}/offsets/{topic}"))
        for partition, (offset, version) in enumerate(committed):
            znodes.append(Znode(f"{root}/offsets/{topic}/0-{partition}", str(offset), version))
    znodes.append(Znode(f"{root}/owners"))
    for topic in offsets:
        znodes.append(Znode(f"{root}/owners/{topic}"))
        for partition, stream in enumerate((owners or {}).get(topic, [])):
            znodes.append(Znode(f"{root}/owners/{topic}/0-{partition}", stream, is_ephemeral=True))
    return znodes


CONSUMERS = Znode("/consumers")
ONE_EACH = dict.fromkeys(
    ("cap", "cap2", "cap2gz", "cap3", "cap3gz", "capgz", "caphl", "caphla", "caprand", "capsn", "smoke"), 1
)

G1 = "g1_vm-1795209969205-1bb5816c"
G2 = "g2_vm-1795209983963-4f4e2bbd"
LEFT, RIGHT = "gstatic_vm-1795210051718-c8f2b5a0", "gstatic_vm-1795210052150-fb6f5897"

ALONE = brokers("127.0.0.1-1795209775990:127.0.0.1:19092", **ONE_EACH)
MOVED = brokers("127.0.0.1-1795209775990:127.0.0.1:19100", 1, **ONE_EACH)
AGAIN = brokers("127.0.0.1-1795210034350:127.0.0.1:19092", **dict(sorted({**ONE_EACH, "multi": 3}.items())))

TWO_MEMBERS = group(
    "gstatic",
    {"cap": [(34, 7)], "multi": [(198, 7), (52, 7), (52, 5)]},
    members={LEFT: '{ "multi": 2,"cap": 1 }', RIGHT: '{ "multi": 1 }'},
    owners={"cap": [f"{LEFT}-0"], "multi": [f"{LEFT}-0", f"{LEFT}-1", f"{RIGHT}-0"]},
)
"""One member with two streams of a topic of three partitions, and one with one."""

DUMPS: dict[str, list[Znode]] = {
    "broker_only": ALONE,
    "broker_plus_consumer_topic": [
        *MOVED,
        CONSUMERS,
        *group("g1", {"cap": [(34, 3)]}, members={G1: "*1*cap"}, owners={"cap": [f"{G1}-0"]}),
    ],
    "after_consumer_exit": [*MOVED, CONSUMERS, *group("g1", {"cap": [(34, 6)]})],
    "whitelist_consumer": [
        CONSUMERS,
        *group("g1", {"cap": [(34, 6)]}),
        *group(
            "g2",
            {"cap": [(34, 2)], "caprand": [(34, 2)]},
            members={G2: "*1*cap|caprand"},
            owners={"cap": [f"{G2}-0"], "caprand": [f"{G2}-0"]},
        ),
    ],
    "static_topic_consumers_2members": [
        *AGAIN,
        CONSUMERS,
        *group("g1", {"cap": [(34, 6)]}),
        *group("g2", {"cap": [(34, 6)], "caprand": [(34, 6)]}),
        *TWO_MEMBERS,
    ],
}
