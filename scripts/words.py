"""Counts the words of the documents, and finds sentences that are too long and phrases that nobody would say.

    python -m scripts.words          # every page: words, sentences, how many are long, phrases
    python -m scripts.words docs/how-to/audit.md    # one page, with its sentences and phrases

tests/test_words.py holds the rules, for pages, help texts, errors and log lines.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from scripts.update_docs import leaf_commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "index.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = ("kafka2011", "zk", "pyspark_kafka2011")
LONG, TOO_LONG = 25, 40
"""Words of a sentence: what to aim at, and what no sentence of docs/ has more than."""
MOST_WORDS = 2500
"""Words of a page, without its generated parts."""

PHRASES = {
    "closed doors": "security, TLS, authentication",
    "met by TLS": "connects over TLS",
    "reached by TLS": "connects over TLS",
    "by TLS": "over TLS",
    "comes again": "is redelivered",
    "come again": "is redelivered",
    "hands out": "delivers, returns",
    "hand out": "deliver, return",
    "handed out": "delivered, returned",
    "in hand": "being processed",
    "who is behind": "a consumer that lags",
    "behind by": "lags by",
    "is born": "is created",
    "are born": "are created",
    "made-up": "synthetic",
    "made anew": "recreated",
    "begins anew": "starts over",
    "makes it anew": "recreates it",
    "anew": "again",
    "where readers wait": "the tail",
    "what is not plain": "any other case",
    "complete through": "complete up to",
    "through when": "complete up to",
    "the house": "-",
    "papercuts": "-",
    "so many": "a number, or `n`",
    "as ever": "as before",
    "by itself": "automatically, alone, or nothing",
    "left lying": "not polled",
    "no topic goes with": "no topic matches",
    "heard of": "known, reported",
    "0: never": "0 turns it off",
    "is away": "is unavailable, is down",
    "are away": "are unavailable, are down",
    "was away": "was unavailable, was down",
}
"""Phrases that no text has, and what to write instead. In order: those of the field's words, and of plain grammar."""

_INSTEAD = {phrase.lower(): instead for phrase, instead in PHRASES.items()}
_PHRASE = re.compile(rf"\b({'|'.join(map(re.escape, sorted(PHRASES, key=len, reverse=True)))})\b", re.IGNORECASE)
_FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_GENERATED = re.compile(r"<!-- ([\w ]+) -->\n.*?<!-- end of \1 -->", re.DOTALL)
_TABLE_ROW = re.compile(r"^ *\|.*$", re.MULTILINE)
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_LIST_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) ", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"”]*\s+(?=[A-Z`\"(*])|(?<=:)\s*\n\n")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|cf|vs|Fig)\.$")


class Finding(NamedTuple):
    """A phrase in a text: where the text stands, the phrase, and the sentence or text around it."""

    where: str
    phrase: str
    text: str

    def __str__(self) -> str:
        return f'{self.where}: "{self.phrase}" ({_INSTEAD[self.phrase.lower()]}): {self.text}'


def prose(page: str) -> str:
    """Return a page without its generated parts, code blocks and comments; links as their texts."""
    for pattern in (_GENERATED, _FENCE, _COMMENT):
        page = pattern.sub("", page)
    return _LINK.sub(r"\1", page)


def count_words(text: str) -> int:
    """Return how many words a text has: what stands between spaces and has a letter or a digit."""
    return sum(1 for word in text.split() if re.search(r"\w", word))


def sentences(page: str) -> list[str]:
    """Return the sentences of a page, without headings and tables. A list's item begins one."""
    text = _HEADING.sub("\n", _TABLE_ROW.sub("\n", prose(page)))
    text = _LIST_ITEM.sub("\n\n", text)
    codes = _CODE.findall(text)  # their dots end no sentence
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", _CODE.sub("`x`", text)):
        for part in _SENTENCE_END.split(" ".join(paragraph.split())):
            if found and _ABBREVIATION.search(found[-1]):
                found[-1] += f" {part}"
            elif count_words(part):
                found.append(part)
    remaining = iter(codes)
    return [re.sub("`x`", lambda _: " ".join(next(remaining).split()), sentence) for sentence in found]


def phrases_in(where: str, text: str) -> Iterator[Finding]:
    """Yield the phrases of a text that is no page: a help text, an error, a log line."""
    flat = " ".join(_CODE.sub("`x`", text).split())
    for match in _PHRASE.finditer(flat):
        yield Finding(where, match[1], flat)


def phrases_of_page(path: Path) -> Iterator[Finding]:
    """Yield the phrases in a page's prose, tables and headings, each with its line or sentence."""
    where = str(path.relative_to(ROOT))
    text = prose(path.read_text(encoding="utf-8"))
    rows = [*_TABLE_ROW.findall(text), *_HEADING.findall(text)]
    for part in (*sentences(text), *rows):
        yield from phrases_in(where, part)


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield what `--help` says of each command and of its options."""
    for command, context in leaf_commands():
        yield context.command_path, command.help or ""
        for item in command.params:
            if isinstance(item, click.Option):
                yield f"{context.command_path} {item.opts[0]}", item.help or ""


def messages() -> Iterator[tuple[str, str]]:
    """Yield the texts of errors that are raised, of log lines and of what commands print; a dot is a value."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                raised = node.exc if isinstance(node, ast.Raise) else None
                if raised is None and isinstance(node, ast.Call) and _is_log_line(node):
                    raised = node
                if isinstance(raised, ast.Call):
                    yield f"{path.relative_to(ROOT)}:{raised.lineno}", " ".join(map(_text_of, raised.args))


def _is_log_line(call: ast.Call) -> bool:
    called = call.func
    if ast.unparse(called) == "click.echo":
        return True
    return (
        isinstance(called, ast.Attribute)
        and called.attr in {"debug", "info", "warning", "error", "exception", "critical"}
        and isinstance(called.value, ast.Name | ast.Attribute)
        and "log" in ast.unparse(called.value).lower()
    )


def _text_of(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "."
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text_of, node.values))
    if isinstance(node, ast.BinOp | ast.IfExp):
        return " ".join(_text_of(part) for part in ast.iter_child_nodes(node))
    return "."


def unreachable() -> list[Path]:
    """Return the pages of docs/ that no chain of links from docs/index.md leads to."""
    seen: set[Path] = set()
    waiting = [INDEX]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        if page.is_relative_to(ROOT / "docs"):
            links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
            waiting += [(page.parent / link).resolve() for link in links if "://" not in link]
    return [page for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in seen]


def figures(path: Path) -> str:
    """Return a line about a page: words, sentences, those over 25 and over 40 words, phrases."""
    text = path.read_text(encoding="utf-8")
    lengths = [count_words(sentence) for sentence in sentences(text)]
    long, too_long = (sum(length > most for length in lengths) for most in (LONG, TOO_LONG))
    return (
        f"{path.relative_to(ROOT)!s:45} words {count_words(prose(text)):6} sentences {len(lengths):4}"
        f" >25 {long:4} >40 {too_long:3} phrases {len(list(phrases_of_page(path))):3}"
    )


def main(arguments: Sequence[str]) -> None:
    """Print the figures of all pages, or one page with what is wrong with it."""
    pages = [Path(argument).resolve() for argument in arguments] or PAGES
    for page in pages:
        print(figures(page))  # noqa: T201
        if arguments:
            text = page.read_text(encoding="utf-8")
            for sentence in sentences(text):
                if count_words(sentence) > LONG:
                    print(f"  {count_words(sentence)} words: {sentence}")  # noqa: T201
            for finding in phrases_of_page(page):
                print(f"  {finding}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
