"""The frame of every page that is one file: reports, sweeps, shadows. It looks as the page of ``mooring ui`` does.

No script, nothing from the network, dark and light. Colours are those of the page: ``palette.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

import msgspec

from mooring.api.version import __version__

# Signs that change the direction of what follows are shown by their numbers: a name must not reorder a page.
SIGNS = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
DIRECTIONS = {sign: f"\\u{sign:04x}" for sign in SIGNS}
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
FONTS = "system-ui,'Segoe UI',Roboto,'Noto Sans CJK JP','Noto Sans CJK SC',sans-serif"
LINES = ("s1", "s5", "s3", "s6", "s4", "s2", "soft", "text")  # the colours of plots, in their order
LOGO = (
    '<svg viewBox="0 0 64 64" width="22" height="22" aria-hidden="true" fill="none" stroke-width="6" '
    'stroke-linecap="round" stroke-linejoin="round">'
    '<path d="M14 57h36M18 20a14 9 0 0 1 28 0zM27 22v32h10V22z" class="logo"/>'
    '<path d="M43 31H25c-9 0-9 8-1 9 12 5 26 3 36-7" stroke="#ff9800"/></svg>'
)

STYLE = """
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:14px/1.45 FONTS;font-variant-numeric:tabular-nums}
.top{display:flex;gap:10px;align-items:center;padding:9px 20px;background:var(--panel);
border-bottom:1px solid var(--line)}
.top b{font-size:15px}.top bdi{font-weight:600;overflow-wrap:anywhere;min-width:0}
.top>:last-child{margin-left:auto;color:var(--soft)}
.logo{fill:var(--accent);stroke:var(--accent)}
main{max-width:1400px;margin:0 auto;padding:18px 20px 48px}
h1{font-size:clamp(18px,1.6vw,24px);line-height:1.3;letter-spacing:-.01em;margin:0 0 6px;overflow-wrap:anywhere}
h1 span{color:var(--soft);font-weight:400}
h2{font-size:15px;margin:30px 0 10px}
h3{font-size:14px;margin:12px 0 4px;overflow-wrap:anywhere}
bdi{unicode-bidi:isolate}
dl{display:flex;flex-wrap:wrap;gap:3px 22px;margin:8px 0 0;color:var(--soft);overflow-wrap:anywhere}
dt,dd{display:inline;margin:0}dt::after{content:": "}dd{color:var(--text)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;list-style:none;
margin:18px 0 0;padding:0}
.tiles li,figure,.card{background:var(--panel);border:1px solid var(--line);border-radius:10px}
.tiles li{padding:10px 14px}
.tiles span{display:block;color:var(--soft);font-size:12px}
.tiles b{display:block;font-size:20px;white-space:nowrap;font-weight:600;letter-spacing:-.01em}
.tiles b+b{color:var(--soft);font-size:16px}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:12px}
.plots.side{grid-template-columns:repeat(var(--runs),minmax(min(100%,300px),1fr))}
@media (max-width:760px){.plots.side{grid-template-columns:1fr}}
figure{margin:0;padding:12px 12px 8px;min-width:0}
figcaption{font-weight:600;margin:0 0 4px 4px;overflow-wrap:anywhere}
.plot{display:block;width:100%;height:auto}
.plot text{font-size:12px;fill:var(--soft)}
@media (max-width:480px){.plot text{font-size:15px}}
.grid{stroke:var(--line)}.tick{stroke:var(--soft)}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.area{stroke:var(--panel);stroke-width:1}
.bar{fill:var(--c0)}.bar:hover{opacity:.75}
.tip{fill:transparent}.tip:hover{fill:var(--soft);fill-opacity:.18}
.line.s0{stroke:var(--c0)}.line.s1{stroke:var(--c1);stroke-dasharray:7 3}.line.s2{stroke:var(--c2);stroke-dasharray:2 3}
.line.s3{stroke:var(--c3);stroke-dasharray:10 3 2 3}.line.s4{stroke:var(--c4);stroke-dasharray:4 4}
.line.s5{stroke:var(--c5);stroke-dasharray:12 4}.line.s6{stroke:var(--c6);stroke-dasharray:1 4}
.line.s7{stroke:var(--c7);stroke-dasharray:6 2 1 2 1 2}
.area.s0{fill:var(--c0)}.area.s1{fill:var(--c1)}.area.s2{fill:var(--c2)}.area.s3{fill:var(--c3)}
.area.s4{fill:var(--c4)}.area.s5{fill:var(--c5)}.area.s6{fill:var(--c6)}.area.s7{fill:var(--c7)}
figure ul{display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;margin:4px 0 0 4px;padding:0;font-size:13px}
figure li{overflow-wrap:anywhere}
.key{width:26px;height:10px;margin-right:6px;vertical-align:middle}
.scroll{overflow-x:auto}
table{border-collapse:collapse}
th,td{text-align:left;padding:4px 14px 4px 0;border-bottom:1px solid var(--line);vertical-align:top;
overflow-wrap:anywhere}
.scroll th,.scroll td{overflow-wrap:break-word}
th{font-weight:500}thead th{color:var(--soft);font-weight:600}
.n{text-align:right;white-space:nowrap}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(250px,1fr));gap:12px;align-items:start}
.figures.side{grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr))}
.figures table{width:100%}
.card{padding:6px 14px 12px;margin-top:10px}.figures .card{margin:0}
.differs td{font-weight:600}
.message{min-width:30ch;max-width:60ch}
@media (max-width:600px){.waits,.waits thead,.waits tbody{display:block}
.waits tr{display:grid;grid-template-columns:1fr auto 7em;padding:4px 0;border-bottom:1px solid var(--line)}
.waits th,.waits td{border:0;padding-right:0}
.waits :nth-child(n+4){grid-column:1/-1;min-width:0;max-width:none;overflow-wrap:anywhere}
.waits thead :nth-child(n+4){display:none}}
.pivot td,.pivot th{text-align:right;white-space:nowrap;padding:5px 0 5px 18px}
.pivot th:first-child,.pivot td:first-child{text-align:left;padding-left:0}
.pivot tbody tr:hover{background:var(--input)}
pre{font:13px/1.5 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;background:var(--input);
border:1px solid var(--line);border-radius:8px;padding:8px 12px;color:var(--text)}
mark{background:none;color:var(--bad);font-weight:600}
footer{margin-top:32px;color:var(--soft);font-size:13px;max-width:95ch}
@media print{figure,.card{break-inside:avoid}}
""".strip().replace("FONTS", FONTS)


@cache
def style() -> str:
    """The style sheet with the palette in it."""
    text = (files("mooring.show") / "palette.json").read_text(encoding="utf-8")
    themes: dict[str, dict[str, str]] = msgspec.json.decode(text)
    lines = "".join(f"--c{i}:var(--{name});" for i, name in enumerate(LINES))

    def variables(theme: str) -> str:
        return "".join(f"--{name}:{colour};" for name, colour in themes[theme].items())

    dark = f"@media (prefers-color-scheme:dark){{:root{{{variables('dark')}}}}}"
    return f":root{{color-scheme:light dark;{variables('light')}{lines}}}\n{dark}\n{STYLE}"


def document(title: str, body: Sequence[str], *, kind: str) -> str:
    """A whole page; the parts of the body are HTML already. ``kind`` says what it is: a report, a sweep."""
    name = escape(title)
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>{style()}</style>\n</head>\n<body>\n"
        f"<div class=top>{LOGO}<b>mooring</b> <bdi>{name}</bdi> <span>{escape(kind)}</span></div>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )
    return page.translate(DIRECTIONS)


def headline(sentences: Sequence[tuple[str, str]]) -> str:
    """What came out: for each run a sentence, and what is worth adding to it."""
    return "".join(
        f"<h1>{escape(said)}{f' <span>{escape(more)}</span>' if more else ''}</h1>" for said, more in sentences
    )


def made_by() -> str:
    """The last line of a page."""
    return f"<p>Made by mooring {escape(__version__)}.</p>"
