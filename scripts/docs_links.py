"""Links of the pages are written for readers of the repository; the site's build makes them work there, too.

A page links to other files as they lie in the repository (``../../decisions/0002-columns.md``, ``../src/mooring/…``).
Files that the site has become links within it. Others become links to the repository, or, where it is not known where
that can be browsed, plain text with the file's name.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page; code is left alone."""
    parts = _FENCE.split(markdown)
    return "".join(part if part.lstrip().startswith("```") else _rewritten(part, page, config, files) for part in parts)


def _rewritten(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    name = page.file.src_uri
    here = os.path.dirname(_in_repository(name))

    def replace(match: re.Match[str]) -> str:
        title, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        if "://" in target or target.startswith(("mailto:", "/")):
            return match.group()
        path = os.path.normpath(os.path.join(here, target))
        site = _on_site(path, files)
        if site is not None:
            return f"[{title}]({os.path.relpath(site, os.path.dirname(name) or '.')}{anchor})"
        if not (ROOT / path).exists() or path.startswith("docs/"):
            return match.group()  # a mistake: the strict build says so
        if config.repo_url:
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            return f"[{title}]({config.repo_url}/{kind}/HEAD/{path}{anchor})"
        return title if title.strip("`") == path or path in title else f"{title} (`{path}`)"

    return _LINK.sub(replace, text)


def _in_repository(name: str) -> str:
    """Where a page of the site lies in the repository."""
    if name == "contributing.md":
        return "CONTRIBUTING.md"
    is_decision = name.startswith("decisions/") and name != "decisions/index.md"
    return name if is_decision else f"docs/{name}"


def _on_site(path: str, files: Files) -> str | None:
    """The name that a file of the repository has among the site's pages."""
    if path in ("decisions", "CONTRIBUTING.md"):
        return "decisions/index.md" if path == "decisions" else "contributing.md"
    if path.startswith("decisions/"):
        name = path
    elif path.startswith("docs/"):
        name = path.removeprefix("docs/")
    else:
        return None
    if files.get_file_from_path(name) is not None:
        return name
    readme = f"{name}/README.md"
    return readme if files.get_file_from_path(readme) is not None else None
