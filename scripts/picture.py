"""Draws docs/images/start.svg: a terminal in which `mooring start --example` has really been run.

python scripts/picture.py            draw it
python scripts/picture.py --check    fail if the text in the picture is not what the command prints today
"""

from __future__ import annotations

import html
import io
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from mooring.cli import output
from mooring.cli.main import run

FILE = Path(__file__).parents[1] / "docs" / "images" / "start.svg"
COMMAND = ("start", "--example")
WIDTH = 126


def record() -> Console:
    """Run the command with a console that remembers what was printed, and its colours."""
    recorder = Console(record=True, width=WIDTH, force_terminal=True, file=io.StringIO(), highlight=False)
    recorder.print(Text.assemble(("$ ", "bold green"), ("mooring " + " ".join(COMMAND), "bold")))

    def console(**_: Any) -> Console:
        return recorder

    for module in list(sys.modules.values()):
        if getattr(module, "console", None) is output.console and module is not output:
            module.console = console  # type: ignore[attr-defined]
    output.console = console
    code = run(COMMAND)
    if code != 0:
        raise SystemExit(code)
    return recorder


def text_of(svg: str) -> str:
    """What is to be read in a picture."""
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    return html.unescape(" ".join(lines)).replace("\xa0", " ")


def main() -> int:
    svg = record().export_svg(title="mooring", unique_id="mooring")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # nothing is fetched to look at it
    if "--check" in sys.argv[1:]:
        if FILE.is_file() and text_of(FILE.read_text()).split() == text_of(svg).split():
            return 0
        print(f"{FILE.name} does not show what the command prints; run scripts/picture.py", file=sys.stderr)
        return 1
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
