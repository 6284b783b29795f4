"""The style sheet of the page. Colours are Okabe and Ito's, which colour-blind people can tell apart."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--ground:#fff;--card:#f6f7f9;--ink:#1c2024;--quiet:#5b636b;--grid:#dfe3e8;
--c0:#0072b2;--c1:#d55e00;--c2:#007f5f;--c3:#a5478a;--c4:#8a6d00;--c5:#2b8cbe;--c6:#5b636b;--c7:#111}
@media (prefers-color-scheme:dark){:root{--ground:#14171a;--card:#1d2125;--ink:#e8eaed;--quiet:#a3abb3;--grid:#343a40;
--c0:#56b4e9;--c1:#f28e4b;--c2:#2fc99b;--c3:#e09ac6;--c4:#f0e442;--c5:#8ec7ee;--c6:#a3abb3;--c7:#fff}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1360px;margin:0 auto;padding:24px 20px 48px}
h1{font-size:24px;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 12px}
h3{font-size:15px;margin:12px 0 4px;overflow-wrap:anywhere}
dl{display:flex;flex-wrap:wrap;gap:4px 24px;margin:0;color:var(--quiet)}
dt,dd{display:inline;margin:0}dt::after{content:": "}dd{color:var(--ink)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(140px,1fr));gap:12px;list-style:none;
margin:20px 0 0;padding:0}
.tiles li{background:var(--card);border-radius:8px;padding:10px 14px}
.tiles span{display:block;color:var(--quiet);font-size:13px}
.tiles b{display:block;font-size:18px;white-space:nowrap;font-weight:600;font-variant-numeric:tabular-nums}
.tiles b+b{color:var(--quiet);font-size:16px}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:16px}
.plots.side{grid-template-columns:repeat(var(--runs),minmax(min(100%,300px),1fr))}
@media (max-width:760px){.plots.side{grid-template-columns:1fr}}
figure{margin:0;background:var(--card);border-radius:8px;padding:12px 12px 8px;min-width:0}
figcaption{font-weight:600;margin:0 0 4px 4px;overflow-wrap:anywhere}
.plot{display:block;width:100%;height:auto}
.plot text{font-size:12px;fill:var(--quiet);font-variant-numeric:tabular-nums}
@media (max-width:480px){.plot text{font-size:15px}}
.grid{stroke:var(--grid)}.tick{stroke:var(--quiet)}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.area{stroke:var(--card);stroke-width:1}
.bar{fill:var(--c0)}.bar:hover{opacity:.75}
.tip{fill:transparent}.tip:hover{fill:var(--quiet);fill-opacity:.18}
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
table{border-collapse:collapse;font-size:14px}
th,td{text-align:left;padding:4px 14px 4px 0;border-bottom:1px solid var(--grid);vertical-align:top;
overflow-wrap:anywhere}
.scroll th,.scroll td{overflow-wrap:break-word}
th{font-weight:500}thead th{color:var(--quiet);font-weight:600}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(250px,1fr));gap:20px 32px;align-items:start}
.figures.side{grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr))}
.figures table{width:100%}
.differs td{font-weight:600}
.message{min-width:30ch;max-width:60ch}
@media (max-width:600px){.waits,.waits thead,.waits tbody{display:block}
.waits tr{display:grid;grid-template-columns:1fr auto 7em;padding:4px 0;border-bottom:1px solid var(--grid)}
.waits th,.waits td{border:0;padding-right:0}
.waits :nth-child(n+4){grid-column:1/-1;min-width:0;max-width:none;overflow-wrap:anywhere}
.waits thead :nth-child(n+4){display:none}}
footer{margin-top:36px;color:var(--quiet);font-size:13px;max-width:90ch}
@media print{figure{break-inside:avoid}}
""".strip()
