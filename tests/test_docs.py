"""The documents say what the code does: every setting, every command, every option."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest

from kafka2011.config.later_names import LATER_NAMES
from kafka2011.mirror.source import CHOSEN as CHOSEN_OF_CONSUMERS
from kafka2011.mirror.target import CHOSEN as CHOSEN_OF_PRODUCER
from paper_benchmarks.experiments.catalogue import EXPERIMENTS
from paper_benchmarks.report.claims import CLAIMS
from scripts import update_docs

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_tables_are_those_of_the_code() -> None:
    """The documents hold exactly the tables that `make docs` would write."""
    for file, (name, text) in update_docs.generated().items():
        assert text in read(file)
        assert update_docs.updated(read(file), name, text) == read(file)


def test_every_command_and_option_is_named() -> None:
    """No command and no option is missing, however the tables are made."""
    commands = read("reference/commands.md")
    for command, context in update_docs.leaf_commands():
        start = commands.index(f"## `{context.command_path}")
        section = commands[start : commands.find("\n## ", start + 4)]
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                if parameter.hidden:
                    continue
                for name in parameter.opts:
                    assert name in section, f"{context.command_path} {name}"
            else:
                assert parameter.make_metavar(context) in section


def test_every_setting_is_named() -> None:
    """Each key stands in a table of its component."""
    for component, (title, _) in update_docs.PARTS.items():
        section = read("reference/settings.md").split(f"## {title}\n")[1].split("\n## ")[0]
        for item in component.settings():
            assert f"| `{item.key}` |" in section


def test_later_settings_are_answered_with_the_names_that_errors_give() -> None:
    """Whoever knows a later Kafka finds the same answer in the page and in the error for its setting."""
    table = read("explanation/coming-from-later-kafka.md").split("## What answers the same need")[1]
    rows = re.findall(r"^\| (.*) \| (.*) \|$", table, re.MULTILINE)
    named = [(name, here) for later, here in rows for name in re.findall(r"`([\w.]+)", later) if name in LATER_NAMES]
    assert len(named) > 10
    for name, here in named:
        assert all(f"`{each}" in here for each in LATER_NAMES[name]), name


def test_every_setting_that_a_mirror_chooses_is_named() -> None:
    """Nobody looks for the reason why theirs is refused."""
    for key in (*CHOSEN_OF_CONSUMERS, *CHOSEN_OF_PRODUCER):
        assert f"`{key}" in read("how-to/mirror.md")


def test_no_package_index_is_promised() -> None:
    """No document and no error advises to install the project by its name, under which no index has it.

    An extra of an installed project is added by name.
    """
    modules = [path for package in ("kafka2011", "pyspark_kafka2011", "zk") for path in (ROOT / package).rglob("*.py")]
    for path in (*DOCUMENTS, *ROOT.glob("integration/**/*.md"), *modules):
        assert not re.search(r"pip install \W*kafka2011(?!-\d|\[)", path.read_text(encoding="utf-8")), path


def headings_of(path: Path) -> set[str]:
    found = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    """Links to files and headings of this repository are not broken."""
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), target
        if heading:
            assert heading in headings_of(linked), target


_NAMED = re.compile(
    r"(?<![\w./-])((?:docs|examples|integration|kafka2011|paper_benchmarks|proof|scripts|tests|zk)/[\w./-]*[\w/])(?:::(\w+))?"
)
"""A file or a folder of the project, perhaps with one of the tests in it."""

_TO_BE_MADE = {("CONTRIBUTING.md", "kafka2011/cli/brokers.py")}
"""What a page has its reader add."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_tests_that_a_document_names_exist(path: Path) -> None:
    """Nobody is sent to a module that has moved, and who reads that a claim is held by a test can run it."""
    for name, test in _NAMED.findall(path.read_text(encoding="utf-8")):
        assert (ROOT / name).exists() or (path.name, name) in _TO_BE_MADE, name
        if test:
            text = (ROOT / name).read_text(encoding="utf-8")
            assert re.search(rf"^ *def {test}\(", text, re.MULTILINE), f"{name}::{test}"


def test_every_claim_of_the_paper_is_held_by_something_that_can_be_run() -> None:
    """Each row of those tables ends with tests, or with a target of the Makefile."""
    tables = re.findall(
        r"^\| the paper \| here \| held by \|\n.*\n((?:\|.*\n)+)", read("explanation/paper.md"), re.MULTILINE
    )
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 50
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for row in rows:
        proof = row.rstrip("| ").split(" | ")[-1]
        for each in proof.split(", "):
            make = re.fullmatch(r"`make ([\w-]+)`", each)
            assert make[1] in targets if make else re.match("`(tests|integration|proof)/", each), row


def test_the_page_on_the_paper_names_what_every_claim_is_measured_by() -> None:
    """Every experiment that a claim of the report rests on is in its table of section 5, and exists."""
    measured = read("explanation/paper.md").split("## Section 5")[1].split("\n## ")[0]
    rows = [row.rstrip("| ").split(" | ")[-1] for row in measured.splitlines() if row.startswith("| ")]
    named = {name for row in rows[1:] for name in re.findall(r"`(\w+)`", row)}
    assert named == {claim.by for claim in CLAIMS} <= set(EXPERIMENTS)


def test_the_architecture_names_every_room() -> None:
    """A newcomer finds the folder of a line by its name; files say for themselves what they are for."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text[text.index("| layer |") :].split("\n\n")[0]
    packages = {f"kafka2011/{path.parent.name}" for path in (ROOT / "kafka2011").glob("*/__init__.py")}
    inner = {path.parent.name for path in (ROOT / "kafka2011" / "warehouse").glob("*/__init__.py")}
    assert set(re.findall(r"`([\w/]+)`", table)) >= packages | inner
    for package in ("kafka2011", "zk", "paper_benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            assert path.read_text(encoding="utf-8").startswith('"""'), path


def test_the_newest_version_of_the_changelog_is_the_project_s() -> None:
    """What is not released yet stands above it."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased, newest, *_ = re.findall(r"^## (.*)$", changes, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (unreleased, newest) == ("Unreleased", project["version"])


def test_the_citation_is_that_of_the_project() -> None:
    """Name, version and licence are those of pyproject.toml, and the paper has its title and authors."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own, paper = citation.split("\nreferences:\n")
    fields = dict(re.findall(r"^([\w-]+): (.*)$", own, re.MULTILINE))
    assert {name: fields[name] for name in ("cff-version", "title", "version", "license", "type")} == {
        "cff-version": "1.2.0",
        "title": project["name"],
        "version": project["version"],
        "license": project["license"],
        "type": "software",
    }
    assert "Kafka: a Distributed Messaging System for Log Processing" in paper
    assert re.findall(r"family-names: (\w+)", paper) == ["Kreps", "Narkhede", "Rao"]


def test_the_figures_for_reviewers_are_the_stored_ones() -> None:
    """Each stored result is in RESULTS.md, each experiment exists, and each target too."""
    page = read("reference/artifact.md")
    results = (ROOT / "paper_benchmarks/RESULTS.md").read_text(encoding="utf-8")
    table = page.split("| claim of the paper |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]+ \| `(\w+)` \|$", table, re.MULTILINE)
    assert len(rows) > 10
    assert [figure for figure, _ in rows if figure not in results] == []
    assert {name for _, name in rows} <= set(EXPERIMENTS)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"`make ([\w-]+)", page)) <= set(targets)
