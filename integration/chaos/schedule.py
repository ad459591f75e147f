"""The schedule of a run: which faults come when, drawn from a seed, and as JSON. Pure."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST_S = 1.0
LONGEST_GAP_S = 4.0
SHORTEST_GAP_S = 0.5
LONG_RUN_S = 180.0
"""From this length on, what lasts longest is drawn too."""

LINKS = (
    "member-zookeeper",
    "broker-zookeeper",
    "producer-zookeeper",
    "zookeeper-zookeeper",
    "clients-broker",
    "member-broker",
    "producer-broker",
)
MODES = ("frozen", "cut", "slow", "hole")
WAYS = ("both", "both", "forth", "back")

WEIGHTS: Mapping[str, float] = {
    "kill member": 4,
    "kill broker": 3,
    "kill producer": 1.5,
    "kill leader": 1.5,
    "pause member": 4,
    "pause broker": 2,
    "pause producer": 1,
    "pause zookeeper": 2,
    "join": 5,
    "leave": 3,
    "ensemble down": 0.7,
    "pause ensemble": 0.7,
    "link": 8,
    "power cut": 1.5,
    "disk full": 1,
    "no files": 1,
    "bit flip": 1,
    "retention": 1,
    "clock steps": 3,
    "topic born": 0.5,
    "broker added": 0.5,
    "partitions grow": 0.7,
    "broker moves": 1,
}
"""How often each kind is drawn, relative to the others."""

FAULTS_OF_GATEWAYS: Mapping[str, float] = {"kill gateway": 6, "pause gateway": 3}
GATEWAY_LINK = "gateway-zookeeper"
GATEWAY_WEIGHTS: Mapping[str, float] = {
    **{kind: weight for kind, weight in WEIGHTS.items() if kind != "bit flip"},
    **FAULTS_OF_GATEWAYS,
}
"""With gateways. A client of today does not get past a message that a flipped bit has damaged."""
GATEWAY_LINKS = (*LINKS, GATEWAY_LINK)
GATEWAYS = 2

LASTS_S: Mapping[str, tuple[float, float]] = {
    "kill": (0.3, 4.0),
    "pause": (0.5, 7.0),
    "ensemble": (3.0, 7.0),
    "link": (0.5, 7.0),
    "power": (0.3, 4.0),
    "disk": (1.0, 5.0),
    "no": (0.5, 5.0),
    "clock": (0.5, 5.0),
    "retention": (6.0, 9.0),
    "broker": (0.3, 4.0),
}
"""How long faults last, by the first word of their kind; others are over at once."""
FEWEST_KINDS = 4
ENSEMBLE_DOWN_S = 20.0
SHORT_RETENTION_BYTES = 10_000
"""How much a broker keeps of each log while it keeps next to nothing."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a schedule. `pick` (0 to 1) chooses among what there is of its kind when the time has come.

    `between`, `mode` and `ways` are those of a link.
    """

    at_s: float
    kind: str
    lasts_s: float
    pick: float
    between: str = ""
    mode: str = ""
    ways: str = ""


def swarm_of(seed: int, weights: Mapping[str, float] = WEIGHTS) -> dict[str, float]:
    """Return the kinds of faults that a seed leaves in: each with a chance of a half, and some at least.

    Where all kinds come in each run, some hide what others would show: whoever is killed all the time never gets to
    the end of a long pause.
    """
    draw = random.Random(f"kinds {seed}")
    kinds = {kind: weight for kind, weight in weights.items() if draw.random() < 0.5}
    return kinds if len(kinds) >= FEWEST_KINDS else dict(weights)


def draw_schedule(
    seed: int,
    seconds: float,
    kinds: Mapping[str, float] = WEIGHTS,
    links: Sequence[str] = LINKS,
    lasts: Mapping[str, tuple[float, float]] = LASTS_S,
) -> list[Fault]:
    """Return the faults of a seed: the same ones each time. All have ended after so many seconds."""
    draw = random.Random(seed)
    faults: list[Fault] = []
    at_s = FIRST_S
    while at_s < seconds:
        kind = draw.choices(list(kinds), list(kinds.values()))[0]
        low_s, high_s = lasts.get(kind.split()[0], (0.0, 0.0))
        lasts_s = draw.uniform(low_s, high_s)
        pick = draw.random()
        between, mode, ways = draw.choice(links), draw.choice(MODES), draw.choice(WAYS)
        if kind == "ensemble down" and seconds >= LONG_RUN_S:
            lasts_s = ENSEMBLE_DOWN_S
        if kind != "link":
            between = mode = ways = ""
        elif mode == "cut":
            ways = "both"
        lasts_s = min(lasts_s, seconds - at_s)
        faults.append(Fault(round(at_s, 2), kind, round(lasts_s, 2), round(pick, 4), between, mode, ways))
        at_s += draw.uniform(SHORTEST_GAP_S, LONGEST_GAP_S)
    return faults


def to_json(seed: int, seconds: float, faults: Sequence[Fault]) -> str:
    """Return a schedule as JSON, one fault a line."""
    lines = ",\n  ".join(json.dumps(asdict(fault)) for fault in faults)
    return f'{{"seed": {seed}, "seconds": {seconds:g}, "faults": [\n  {lines}\n]}}\n'


def from_json(text: str) -> tuple[int, float, list[Fault]]:
    """Return seed, seconds and faults of a schedule."""
    read = json.loads(text)
    return int(read["seed"]), float(read["seconds"]), [Fault(**fault) for fault in read["faults"]]
