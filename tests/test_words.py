"""Pages, help texts, errors and log lines are written as one would say them: rules that a machine can check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.words import (
    MOST_WORDS,
    PAGES,
    PHRASES,
    ROOT,
    TOO_LONG,
    count_words,
    help_texts,
    messages,
    phrases_in,
    phrases_of_page,
    prose,
    sentences,
    unreachable,
)

if TYPE_CHECKING:
    from pathlib import Path

NOT_YET: set[str] = set()
"""Pages that are still to be rewritten; this list only gets shorter."""

HISTORY = {"CHANGELOG.md"}
"""What was written for a release stays as it was."""

CHECKED = [page for page in PAGES if str(page.relative_to(ROOT)) not in HISTORY]


def faults_of(page: Path) -> list[str]:
    """Return what is wrong with a page, each as the page's name and the sentence."""
    name = str(page.relative_to(ROOT))
    text = page.read_text(encoding="utf-8")
    faults = [
        f"{name}: a sentence of {count_words(sentence)} words: {sentence}"
        for sentence in sentences(text)
        if count_words(sentence) > TOO_LONG
    ]
    faults += map(str, phrases_of_page(page))
    words = count_words(prose(text))
    if words > MOST_WORDS:
        faults.append(f"{name}: {words} words are more than {MOST_WORDS}: split the page, or cut what repeats")
    return faults


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_keeps_the_rules(page: Path) -> None:
    """No sentence is over 40 words, no phrase is one that nobody would say, and the page can be read in one sitting."""
    faults = faults_of(page)
    if faults and str(page.relative_to(ROOT)) in NOT_YET:
        pytest.xfail(f"still to be rewritten: {len(faults)} faults (python -m scripts.words {page.relative_to(ROOT)})")
    assert faults == [], "\n".join(faults)


def test_pages_still_to_be_rewritten_exist() -> None:
    """A page that was moved or removed leaves the list."""
    assert {str(page.relative_to(ROOT)) for page in CHECKED} >= NOT_YET


def test_every_page_is_reached_from_the_index() -> None:
    """A reader who follows links from docs/index.md finds each page of docs/."""
    assert unreachable() == []


def test_help_texts_keep_the_rules() -> None:
    """No command and no option is described in a phrase that nobody would say."""
    texts = list(help_texts())
    assert len(texts) > 200
    faults = [str(finding) for where, text in texts for finding in phrases_in(where, text)]
    assert faults == [], "\n".join(faults)


def test_errors_and_log_lines_keep_the_rules() -> None:
    """The same of what the package raises and logs."""
    texts = list(messages())
    assert len(texts) > 900
    faults = [str(finding) for where, text in texts for finding in phrases_in(where, text)]
    assert faults == [], "\n".join(faults)


def test_sentences_of_a_page() -> None:
    """Code, tables, headings and what is generated are no sentences; items of lists are."""
    page = (
        "# A heading. With a dot\n\nOne sentence, e.g. this\none. Another `a. B`? Yes (really.) So:\n\n"
        "- an item\n- the next. And more\n\n| a | table. Row |\n\n```sh\nno. Code\n```\n"
        "<!-- part -->\nNot this. Nor this\n<!-- end of part -->\nThe [link](a.md) ends.\n"
    )
    assert sentences(page) == [
        "One sentence, e.g. this one.",
        "Another `a. B`?",
        "Yes (really.",
        "So:",
        "an item",
        "the next.",
        "And more",
        "The link ends.",
    ]


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_is_found(phrase: str, tmp_path: Path) -> None:
    """Across a line's end, whatever its case; but not in code, nor within a longer word."""
    first, _, rest = phrase.partition(" ")
    assert [finding.phrase for finding in phrases_in("here", f"So {first.upper()}\n{rest} it is")]
    assert not list(phrases_in("here", f"So `{phrase}` it is, x{phrase}x"))


def test_a_long_sentence_is_found() -> None:
    """The figure counts words, not dashes."""
    assert count_words("one - two, `three` (four)") == 4
    [sentence] = sentences("word " * 41)
    assert count_words(sentence) == 41
