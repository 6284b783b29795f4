"""Languages behind a switch in the header: the lessons in 日本語 and 中文 are not among the sections.

In the navigation of mkdocs.yml each language is a section at the end. Here it becomes the navigation of its own pages,
and the switch leads from a page to the same page in another language, or to that language's first page.
"""

from __future__ import annotations

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

LANGUAGES = {"日本語": "ja", "中文": "zh"}
FOLDER = "learn/"
_navigation: dict[str, Navigation] = {}  # by language


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Take the languages out of the navigation."""
    _navigation.clear()
    for item in [item for item in nav.items if isinstance(item, Section) and item.title in LANGUAGES]:
        nav.items.remove(item)
        pages = [page for page in item.children if isinstance(page, Page)]
        pages[0].previous_page = pages[-1].next_page = None
        own = _navigation[LANGUAGES[item.title]] = Navigation([item], pages)
        own.homepage = nav.homepage
    pages = [page for page in nav.pages if _language(page) == "en"]
    pages[-1].next_page = None
    nav.pages[:] = pages
    return nav


def on_page_context(context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation) -> dict[str, Any]:
    """Show a page the navigation and the words of its own language."""
    language = _language(page)
    config.theme["language"] = language
    config.extra["alternate"] = [
        {"name": name, "lang": code, "link": _same_page(page, code)}
        for name, code in {"English": "en", **LANGUAGES}.items()
    ]
    if language in _navigation:
        context["nav"] = _navigation[language]
    return context


def _language(page: Page) -> str:
    folder = page.file.src_uri.removeprefix(FOLDER).partition("/")[0]
    return folder if page.file.src_uri.startswith(FOLDER) and folder in LANGUAGES.values() else "en"


def _same_page(page: Page, language: str) -> str:
    """The address of this page in a language."""
    own = _language(page)
    if own == language:
        return page.url
    name = page.file.src_uri.removeprefix(FOLDER).removeprefix(f"{own}/")
    others = _pages(language)
    wanted = f"{FOLDER}{name}" if language == "en" else f"{FOLDER}{language}/{name}"
    first = "index.html" if language == "en" else f"{FOLDER}{language}/index.html"
    return others.get(wanted, first)


def _pages(language: str) -> dict[str, str]:
    if language == "en":
        return _english
    return {page.file.src_uri: page.url for page in _navigation[language].pages}


_english: dict[str, str] = {}


def on_env(env: Any, config: MkDocsConfig, files: Files) -> Any:
    """Remember the addresses of the English lessons."""
    _english.clear()
    _english.update({file.src_uri: file.url for file in files.documentation_pages() if file.src_uri.startswith(FOLDER)})
    return env
