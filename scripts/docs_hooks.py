"""What the documentation's build does beyond Markdown: adds the generated pages, and fits in what others write.

A folder in the navigation (``learn/ja/``) stands for its pages, in the order of their numbers. Pages in the navigation
that are not written yet are left out with a note, and links to them are plain text. So are links that lead from a page
into the repository (to a plugin's source, to an example), since the site does not carry those files.
"""

from __future__ import annotations

import logging
import re
import runpy
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.hooks")
PAGES = runpy.run_path(str(Path(__file__).with_name("docs_pages.py")))["PAGES"]
_missing: set[str] = set()
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave out what is not written yet."""
    docs = Path(config.docs_dir)
    config.nav = _existing(config.nav or [], docs)
    return config


def _existing(entries: list[Any], docs: Path) -> list[Any]:
    kept: list[Any] = []
    for entry in entries:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(value, list):
            inside = _existing(value, docs)
            if inside:
                kept.append({title: inside})
        elif value.endswith("/"):
            inside = [str(page.relative_to(docs)) for page in sorted((docs / value).glob("*.md"), key=_number)]
            if inside:
                kept.append({title: inside})
        elif value in PAGES or (docs / value).is_file():
            kept.append(entry)
        else:
            _missing.add(value)
            log.info("the page %s is not written yet", value)
    return kept


def _number(page: Path) -> tuple[int, str]:
    """README first, then 2-… before 10-…."""
    found = re.match(r"\d+", page.name)
    return (int(found.group()) if found else 0, page.name)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code."""
    for name, make in PAGES.items():
        files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links into the repository plain text."""
    docs = Path(config.docs_dir).resolve()
    repository = docs.parent
    here = docs / Path(page.file.src_uri).parent

    def replace(match: re.Match[str]) -> str:
        text, target = match.group(1), match.group(2)
        if "://" in target or target.startswith(("mailto:", "/")):
            return match.group()
        path = (here / target).resolve()
        if path.is_relative_to(docs) and (path.is_file() or str(path.relative_to(docs)) in PAGES):
            return match.group()
        if path.is_dir() and (path / "README.md").is_file() and path.is_relative_to(docs):
            return match.group().replace(target, target.rstrip("/") + "/README.md")
        if path.is_relative_to(docs) and str(path.relative_to(docs)) in _missing:
            return text
        if path.exists() and path.is_relative_to(repository):
            shown = str(path.relative_to(repository))
            return text if text.strip("`") == shown or shown in text else f"{text} (`{shown}`)"
        return match.group()  # a mistake: the strict build says so

    return _LINK.sub(replace, markdown)
