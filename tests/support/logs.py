"""Logs and log managers from options that stand side by side, as tests give them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kafka2011.log.log import Log, LogHooks, RecoverySettings
from kafka2011.log.log_manager import LogManager, TopicSettings

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.log.log_settings import LogSettings


def _taken(options: dict[str, Any], of: type[Any]) -> dict[str, Any]:
    """Take the options out that are fields of a dataclass."""
    return {field.name: options.pop(field.name) for field in fields(of) if field.name in options}


def new_log(directory: Path, settings: LogSettings, *, topic: str = "t", recover: bool = False, **options: Any) -> Log:
    """Open partition 0 of a topic; options are those of Log, LogHooks and RecoverySettings."""
    hooks = LogHooks(**_taken(options, LogHooks))
    recovering = RecoverySettings(**_taken(options, RecoverySettings))
    return Log(directory, topic, 0, settings, hooks=hooks, recovering=recovering if recover else None, **options)


def new_log_manager(log_dir: Path, **options: Any) -> LogManager:
    """Make a log manager; options are those of LogManager, TopicSettings and LogHooks."""
    settings = TopicSettings(**_taken(options, TopicSettings))
    return LogManager(log_dir, settings, hooks=LogHooks(**_taken(options, LogHooks)), **options)
