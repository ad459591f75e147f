"""Renders tables for docs/ of what clients do with each error code, from the table that a proof has filled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from kafka2011.gateway.protocol.answer_codes import LEVELS
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.protocol.fields import Api

TABLE = Path(__file__).parents[1] / "proof" / "answer_codes" / "table.json"
RETRIES = "retries"
WHOLE = "response"
"""The level, in the table, of a code for the whole response."""
CLIENTS = (
    "kafka-clients 4",
    "kafka-clients 2",
    "librdkafka",
    "kafka-python",
    "aiokafka",
    "franz-go",
    "Sarama",
    "KafkaJS",
)
_WAYS = {"produce": "of a producer", "consume": "of a consumer", "commit": "of a consumer"}


class Measured(NamedTuple):
    """The reactions of clients to one code at one level of responses to a request, each with the request's version."""

    way: str
    api: Api
    level: str
    code: ErrorCode
    results: dict[str, tuple[str, int]]

    @property
    def answered(self) -> str:
        """A text that says when the gateway answers the code."""
        level = LEVELS[self.api, self.level]
        if self.code is level.passing:
            return "for a state that passes"
        return "yes" if self.code in level.others else "never"


def measured() -> list[Measured]:
    """Read the table."""
    rows = []
    for key, results in json.loads(TABLE.read_text("utf-8")).items():
        way, api, level, code = key.split(" ")
        by_client = {client: (did, version) for client, (did, version) in results.items()}
        rows.append(Measured(way, Api[api], "" if level == WHOLE else level, ErrorCode(int(code)), by_client))
    return rows


def render_answer_codes() -> str:
    """Return a table for each request and level: code, when it is answered, what each client does."""
    sections: dict[tuple[Api, str, str], list[Measured]] = {}
    for row in sorted(
        measured(), key=lambda row: (row.api, row.way, row.level, row.answered != "for a state that passes", row.code)
    ):
        sections.setdefault((row.api, row.way, row.level), []).append(row)
    return "\n\n".join("\n".join(_section(*key, rows)) for key, rows in sections.items())


def _section(api: Api, way: str, level: str, rows: list[Measured]) -> list[str]:
    name = api.name.title().replace("_", "")
    place = f"in `{level}`" if level else "for the whole response"
    lines = [f"## {name} {_WAYS[way]}, {place}", ""]
    lines += [f"| code | answered | {' | '.join(CLIENTS)} |", "|---" * (2 + len(CLIENTS)) + "|"]
    for row in rows:
        cells = [_cell(row, client) for client in CLIENTS]
        lines.append(f"| {row.code.value} {row.code.name} | {row.answered} | {' | '.join(cells)} |")
    versions = [
        max((row.results[client][1] for row in rows if client in row.results), default=-1) for client in CLIENTS
    ]
    return [*lines, f"| version | | {' | '.join(map(str, versions))} |"]


def _cell(row: Measured, client: str) -> str:
    did, _ = row.results.get(client, ("", -1))
    return did or "-"
