"""Writes the folder that a student begins with."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from kafka2011.lab.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

LANGUAGES = ("python", "go", "other")
"""`other` has no program, only lab.toml with examples."""


def write_starter(folder: Path, language: str) -> list[Path]:
    """Write a skeleton and lab.toml into a folder, and return the files. Raises LabError if one exists already."""
    # They end in .txt so that no tool takes them for a part of this package.
    skeleton = files("kafka2011.lab") / "skeletons" / language
    contents = {
        folder / item.name.removesuffix(".txt"): item.read_bytes() for item in skeleton.iterdir() if item.is_file()
    }
    for path in contents:
        if path.exists():
            raise LabError(f"{path} exists already: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        path.write_bytes(content)
    return sorted(contents)
