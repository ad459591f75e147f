"""Options of `kafka2011 load` for loads that leave out repeats, or fill another table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.cluster import TopicPartition

F = TypeVar("F", bound="Callable[..., object]")


def dedup_and_rebuild_options(function: F) -> F:
    """Add the options."""
    for option in (
        click.option(
            "--dedup-window",
            "dedup_window_s",
            type=click.FloatRange(min=0),
            default=24 * 3600.0,
            show_default=True,
            metavar="SECONDS",
            help="With --dedup, how old commits are whose events count as there already.",
        ),
        click.option(
            "--dedup", is_flag=True, help="Leave out rows whose event id is there already: producers repeat events."
        ),
        click.option("--into", metavar="NAME", help="With --rebuild, the table beside the topic's own to load into."),
        click.option(
            "--from",
            "begin",
            metavar="PLACE",
            default="earliest",
            show_default=True,
            help='With --rebuild, where a new table begins: earliest, or offsets such as {"0-1": 123}.',
        ),
        click.option("--rebuild", is_flag=True, help="Load one topic again, from its log into another table."),
    ):
        function = option(function)
    return function


def begin_offsets(topic: str, begin: str) -> dict[TopicPartition, int]:
    """Return the offsets that `--from` names; earliest names none."""
    from zk.cluster import TopicPartition
    from zk.errors import MalformedNode

    if begin == "earliest":
        return {}
    try:
        return {TopicPartition.from_znode_name(topic, name): int(offset) for name, offset in json.loads(begin).items()}
    except (ValueError, AttributeError, TypeError, MalformedNode) as error:
        raise click.UsageError(f'--from {begin}: give earliest, or offsets such as {{"0-1": 123}}') from error
