"""What the site adds to the Markdown of docs/: lists of pages, and a page for each public module."""

from __future__ import annotations

import enum
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from kafka2011.config import Settings
from scripts.docstrings import as_rst
from scripts.public_names import CONSTANTS, PUBLIC_MODULES, is_constructed, members_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
API = DOCS / "reference" / "api"
INDEX = "docs/index"
API_INDEX = "docs/reference/api"

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#]+)(#[^)]*)?\)")
_MARK = re.compile(r"<!-- (not run|no block is run): (.*?) -->")
_MARKED = {"not run": "Not run by tests", "no block is run": "No block of this page is run by tests"}
_REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">\n'


def connect(app: Any) -> None:
    """Register the functions below at the events of a Sphinx application."""
    app.connect("builder-inited", lambda _app: write_api_pages())
    app.connect("source-read", _on_source)
    app.connect("autodoc-process-docstring", _on_docstring)
    app.connect("autodoc-process-signature", _on_signature)
    app.connect("missing-reference", _on_missing_reference)
    app.connect("build-finished", _on_finished)


def write_api_pages() -> None:
    """Write a page for each public module, and remove the pages of others."""
    API.mkdir(exist_ok=True)
    pages = {API / f"{module}.rst": api_page(module) for module in PUBLIC_MODULES}
    for path in API.iterdir():
        if path not in pages:
            path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def api_page(module: str) -> str:
    """Return the page of a public module: its docstring, classes, functions, errors and constants."""
    lines = [module, "=" * len(module), "", f"*{PUBLIC_MODULES[module]}*", "", f".. automodule:: {module}", ""]
    names = import_module(module).__all__
    values = {name: getattr(import_module(module), name) for name in names}
    errors = [name for name, value in values.items() if inspect.isclass(value) and issubclass(value, Exception)]
    classes = [name for name, value in values.items() if inspect.isclass(value) and name not in errors]
    functions = [name for name, value in values.items() if not inspect.isclass(value) and callable(value)]
    constants = [name for name in names if f"{module}.{name}" in CONSTANTS]
    for title, kind, group in (
        ("Classes", "autoclass", classes),
        ("Functions", "autofunction", functions),
        ("Constants", "data", constants),
        ("Errors", "autoexception", errors),
    ):
        if group:
            lines += [title, "-" * len(title), ""]
        for name in group:
            lines += _entry(kind, f"{module}.{name}", values[name])
    return "\n".join(lines)


def _entry(kind: str, path: str, value: object) -> list[str]:
    if kind == "data":
        return [f".. py:data:: {path}", f"   :value: {value!r}", "", f"   {as_rst([CONSTANTS[path]], {})[0]}", ""]
    lines = [f".. {kind}:: {path}"]
    if kind == "autoexception":
        lines.append("   :show-inheritance:")
    if inspect.isclass(value):
        members = [item.path.rpartition(".")[2] for item in members_of(path, value)]
        if issubclass(value, enum.Enum):
            members = [*value.__members__, *members]
            lines.append("   :undoc-members:")
        if members:
            lines.append(f"   :members: {', '.join(members)}")
    return [*lines, ""]


def public_paths() -> dict[str, str]:
    """Return how docstrings name public things, such as `Producer.send`, and the full path of each."""
    paths: dict[str, str] = {}
    for module in PUBLIC_MODULES:
        for name in import_module(module).__all__:
            path = f"{module}.{name}"
            paths[name] = paths[path] = path
            value = getattr(import_module(module), name)
            if inspect.isclass(value):
                for item in members_of(path, value):
                    paths[f"{name}.{item.path.rpartition('.')[2]}"] = item.path
    return paths


def page_lists(name: str, text: str) -> str:
    """Return hidden lists of the pages that an index links to, one for each of its sections, as Sphinx wants them."""
    lists: list[str] = []
    listed: set[Path] = set()
    for section in text.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        pages = []
        for _, target, _anchor in _LINK.findall(section):
            path = (ROOT / f"{name}.md").parent.joinpath(target).resolve()
            if target.endswith(".md") and path.exists() and path not in listed:
                listed.add(path)
                pages.append(f"/{path.relative_to(ROOT).with_suffix('')}")
        lists.append("\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"]))
    return "\n\n".join(lists)


def _on_source(_app: object, name: str, source: list[str]) -> None:
    text = with_shown_marks(without_links_to_folders(name, source[0]))
    if name == INDEX:
        text += "\n" + page_lists(name, text)
    if name == API_INDEX:
        modules = (f"/docs/reference/api/{module}" for module in PUBLIC_MODULES)
        text += "\n" + "\n".join(["```{toctree}", ":hidden:", "", *modules, "```"])
    source[0] = text


def without_links_to_folders(name: str, text: str) -> str:
    """Return a page in which links to folders of the repository, which a site does not have, are plain text."""
    here = (ROOT / name).parent

    def plain(link: re.Match[str]) -> str:
        return link[1] if "://" not in link[2] and (here / link[2]).is_dir() else link[0]

    return _LINK.sub(plain, text)


def with_shown_marks(text: str) -> str:
    """Return a page whose readers see which blocks no test runs, and why (integration/blocks/gather.py)."""
    return _MARK.sub(lambda mark: f"*{_MARKED[mark[1]]}: {mark[2]}.*\n", text)


def _on_docstring(_app: object, _what: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    lines[:] = as_rst(lines, public_paths())


def _on_signature(
    _app: object, what: str, name: str, value: object, _options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    if inspect.isclass(value) and issubclass(value, Settings):
        return "(settings)", None  # there are dozens: reference/settings.md has them
    if what == "class" and not is_constructed(name):
        return "", None
    return signature, returns


def _on_missing_reference(_app: object, _env: object, node: Any, content: Any) -> Any:
    """Leave names of types without a link where they are not public; links of pages are still checked."""
    return content if node.get("refdomain") == "py" else None


def _on_finished(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        (Path(app.outdir) / "index.html").write_text(_REDIRECT, encoding="utf-8")
