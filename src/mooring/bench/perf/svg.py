"""The few pieces of SVG that charts and flame graphs are made of."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

FONT = "ui-sans-serif, system-ui, sans-serif"


def document(width: float, height: float, title: str, body: Iterable[str]) -> str:
    """A whole picture on a white ground, readable without style sheets."""
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{number(width)}" height="{number(height)}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        ]
    )


def number(value: float) -> str:
    """Short: two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, content: str, *, anchor: str = "start", size: float = 12, fill: str = "#222222") -> str:
    return (
        f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" font-size="{number(size)}" '
        f"fill={quoteattr(fill)}>{escape(content)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = "#dddddd", dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" '
        f"stroke={quoteattr(stroke)}{dashes}/>"
    )


def box(x: float, y: float, width: float, height: float, fill: str, title: str = "") -> str:
    start = (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
        f"fill={quoteattr(fill)}"
    )
    return f"{start}><title>{escape(title)}</title></rect>" if title else f"{start}/>"


def polyline(points: Iterable[tuple[float, float]], stroke: str, dash: str = "") -> str:
    joined = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{joined}" fill="none" stroke={quoteattr(stroke)} stroke-width="2"{dashes}/>'


def dot(x: float, y: float, fill: str, title: str) -> str:
    """A mark on a line; its title is shown when the mouse is over it."""
    where = f'cx="{number(x)}" cy="{number(y)}" r="3"'
    return f"<circle {where} fill={quoteattr(fill)}><title>{escape(title)}</title></circle>"
