"""What the documentation's build adds to the pages in docs/: CONTRIBUTING, the decisions and their list.

A folder in the navigation (``learn/``) stands for its pages, in the order of their numbers. Links are the business of
``docs_links.py``, languages that of ``docs_languages.py``.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_PAGES = runpy.run_path(str(Path(__file__).with_name("docs_pages.py")))
TITLE = _PAGES["decision_title"]
DECISIONS = {f"decisions/{path.name}": path for path in sorted((ROOT / "decisions").glob("*.md"))}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand folders, and link to the repository that this is a clone of."""
    config.nav = _expanded(config.nav or [])
    config.repo_url = repository()
    config.repo_name = urlsplit(config.repo_url).path.strip("/") if config.repo_url else None
    config.edit_uri = None
    return config


def repository() -> str:
    """Where the source can be browsed: $REPOSITORY_URL, or the clone's origin; nothing if there is none."""
    given = os.environ.get("REPOSITORY_URL", "")
    if given:
        return given.rstrip("/")
    asked = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    found = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip()
    if match := re.fullmatch(r"(?:ssh://)?git@([\w.-]+)[:/](.+?)(?:\.git)?", found):
        return f"https://{match[1]}/{match[2]}"
    parts = urlsplit(found)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.removesuffix('.git')}"


def _expanded(entries: list[Any]) -> list[Any]:
    expanded: list[Any] = []
    for entry in entries:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(value, list):
            expanded.append({title: _expanded(value)})
        elif value.endswith("/"):
            expanded.append({title: _pages_of(value)})
        else:
            expanded.append(entry)
    return expanded


def _pages_of(folder: str) -> list[Any]:
    if folder == "decisions/":
        return ["decisions/index.md", {"All decisions": [{_title(path): name} for name, path in DECISIONS.items()]}]
    pages = sorted((ROOT / "docs" / folder).glob("*.md"), key=_number)
    return [str(page.relative_to(ROOT / "docs")) for page in pages]


def _title(decision: Path) -> str:
    return f"{decision.name[:4]} {TITLE(decision.read_text(encoding='utf-8'))}"


def _number(page: Path) -> tuple[int, str]:
    """README first, then 2-… before 10-…, then pages without a number."""
    found = re.match(r"\d+", page.name)
    return (int(found.group()) if found else 0 if page.name == "README.md" else 999, page.name)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/."""
    files.append(File.generated(config, "decisions/index.md", content=_PAGES["decisions"]()))
    for name, path in {"contributing.md": ROOT / "CONTRIBUTING.md", **DECISIONS}.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files
