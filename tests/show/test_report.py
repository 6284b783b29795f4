"""Reports say what was measured, and nothing that a cluster calls itself becomes markup."""

from __future__ import annotations

import csv
import errno
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import mooring
from mooring.api.errors import InputError, UsageError
from mooring.ask.shadow.summary import Summary
from mooring.record.measures import Measures
from mooring.record.meter import Meter
from mooring.show.figures import ReportedRun, figures, side_by_side
from mooring.show.plots import CHARACTER, WIDTH, Series, lines
from mooring.show.report import code, markdown, one_row_each, over_time, to_csv, write_report
from mooring.show.report_page import page, shadow_page
from mooring.testing import bound, make_node, make_pod

HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>|`*_@all'&amp;"
VOID = {"meta", "br", "hr", "img", "input", "link"}


def measured(name: str = "web", zones: tuple[str, ...] = ("east", "west"), wait_s: float = 3.0) -> Measures:
    meter = Meter()
    for i, zone in enumerate(zones):
        meter.put(0, make_node(f"node-{i}", cpu="4", zone=zone, labels={"mooring/price-per-hour": "2"}))
    for i in range(4):
        pod = make_pod(f"{name}-{i}", cpu="1", priority=i % 2 * 100)
        meter.put(10 * i, pod)
        meter.scheduled()
        meter.put(10 * i + wait_s, bound(pod, "node-0"))
    big = make_pod(name, cpu="64")
    meter.put(50, big)
    meter.refused(50, big.uid, frozenset((f"Fit {name}",)))
    meter.explained(big.uid, f"0/2 nodes are available: {name}")
    return meter.finish(3600)


class Tags(HTMLParser):
    """The tags of a page; every one that opens has to close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


# ---- the page ------------------------------------------------------------------------------------------------------


def test_a_page_has_the_figures_the_plots_and_pending_pods() -> None:
    text = "\n".join(read(page([ReportedRun("monday", measured(), {"decides as": "Kubernetes 1.36"})])).text)
    for wanted in ("monday", "Kubernetes 1.36", "Pending pods by cause", "cpu allocated by zone", "default/web",
                   "0/2 nodes are available: web", "Waiting, priority 100", "Cost so far"):  # fmt: skip
        assert wanted in text


def test_a_page_needs_no_script_and_nothing_from_elsewhere() -> None:
    made = page([ReportedRun("monday", measured())])
    tags = read(made)
    assert "script" not in tags.seen and "link" not in tags.seen
    assert "default-src 'none'" in made
    assert not re.search(r"(?:href=|src=|url\(|@import|https?:)", made)


@pytest.mark.parametrize("count", [1, 2], ids=["alone", "side by side"])
def test_names_are_text_never_markup(count: int) -> None:
    runs = [ReportedRun(HOSTILE, measured(HOSTILE, (HOSTILE, "b")), {HOSTILE: HOSTILE})] * count
    tags = read(page(runs))
    assert "script" not in tags.seen and "img" not in tags.seen
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert any(HOSTILE in text for text in tags.text)


def test_several_runs_are_side_by_side_with_what_differs_marked() -> None:
    made = page([ReportedRun("before", measured()), ReportedRun("after", measured(wait_s=7.0))])
    assert made.count("Pending pods by cause</figcaption>") == 2
    assert "class=differs><th scope=row>p50</th><td class=n>3 s</td><td class=n>7 s</td>" in made


def test_runs_of_different_length_have_one_axis_of_time() -> None:
    short = Meter()
    short.put(0, make_node("a"))
    made = page([ReportedRun("long", measured()), ReportedRun("short", short.finish(60))])
    plots = re.findall(r"<figcaption>Allocated</figcaption><svg.*?</svg>", made, re.DOTALL)
    marks = [re.findall(r">(\d+ min)<", plot) for plot in plots]
    assert len(marks) == 2 and marks[0] == marks[1] and marks[0][-1] == "50 min"


@pytest.mark.parametrize(
    "measures",
    [
        pytest.param(Meter().finish(), id="nothing happened"),
        pytest.param(measured(zones=("",)), id="no zones"),
        pytest.param(measured(zones=tuple(f"zone-{i}" for i in range(30))), id="many zones"),
    ],
)
def test_every_run_can_be_shown(measures: Measures) -> None:
    read(page([ReportedRun("run", measures)]))
    markdown([ReportedRun("run", measures)])
    to_csv(over_time([ReportedRun("run", measures)]))


# ---- figures, Markdown, tables -------------------------------------------------------------------------------------


def test_the_figures_are_those_of_the_row() -> None:
    measures = measured()
    found = {(each.group, each.name): each for each in figures(measures)}
    assert found["Pods", "came"].text == "5"
    assert found["Waiting", "p50"].text == "3 s"
    assert found["Allocated on average", "cpu"].value == measures.row["allocated.cpu"]
    assert found["Cluster", "cost"].text == "4.00"


def test_a_figure_that_only_one_run_has_is_empty_for_the_other() -> None:
    lines = {
        (line.group, line.name): line for line in side_by_side([measured(zones=("a",)), measured(zones=("a", "b"))])
    }
    assert lines["Allocated on average in b", "cpu"].texts == ("", "0.0 %")
    assert not lines["Pods", "came"].differs


def test_markdown_is_short_and_its_tables_are_whole() -> None:
    text = markdown([ReportedRun("monday", measured())])
    assert len(text) < 4000
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


def test_a_comparison_in_markdown_shows_what_differs() -> None:
    text = markdown([ReportedRun("before", measured()), ReportedRun("after", measured(wait_s=7.0))])
    assert "| Waiting: p50 | 3 s | 7 s |" in text
    assert "| Pods: came" not in text and "figures are the same" in text


def test_hostile_names_stay_in_their_cells_and_in_code() -> None:
    text = markdown([ReportedRun(HOSTILE, measured(HOSTILE, (HOSTILE, "b")), {"by": HOSTILE})])
    outside = re.sub(r"(`+).*?(?<!`)\1(?!`)", "", text)
    assert "<script>" not in outside.replace("\\<", "")
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("web", "`web`"),
        ("a`b", "``a`b``"),
        ("`a", "`` `a ``"),
        ("a|b", "`a\\|b`"),
        ("a\nb", "`a b`"),
        ("", ""),
    ],
)
def test_code_is_code(text: str, want: str) -> None:
    assert code(text) == want


def test_tables_have_a_row_per_sample_or_per_run() -> None:
    one, two = ReportedRun("one", measured(zones=("a",))), ReportedRun("two", measured())
    rows = list(csv.DictReader(io.StringIO(to_csv(over_time([one, two])))))
    assert {row["run"] for row in rows} == {"one", "two"}
    assert rows[0]["allocated.cpu.west"] == ""  # only the second has that zone
    assert rows[-1]["seconds"] == "3600"
    flat = list(csv.DictReader(io.StringIO(to_csv(one_row_each([one, two])))))
    assert [row["pods"] for row in flat] == ["5", "5"]


# ---- files ---------------------------------------------------------------------------------------------------------


def test_the_ending_says_the_form(tmp_path: Path) -> None:
    runs = [ReportedRun("monday", measured())]
    for ending in ("html", "md", "csv", "json"):
        write_report(runs, tmp_path / f"r.{ending}")
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((tmp_path / "r.json").read_text())[0]["row"]["pods"] == 5
    with pytest.raises(UsageError, match=r"the ending '.pdf'; expected one of .html, .md"):
        write_report(runs, tmp_path / "r.pdf")
    with pytest.raises(UsageError, match="no such file or directory"):
        write_report(runs, tmp_path / "absent" / "r.md")


def test_a_full_disk_leaves_the_report_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_the_disk(path: Path, text: str, **_: object) -> None:
        path.write_bytes(text[:100].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    runs = [ReportedRun("monday", measured())]
    write_report(runs, tmp_path / "r.md")
    before = (tmp_path / "r.md").read_text()
    monkeypatch.setattr(Path, "write_text", fill_the_disk)
    with pytest.raises(UsageError, match=r"r\.md: no space left on device"):
        write_report(runs, tmp_path / "r.md")
    assert (tmp_path / "r.md").read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["r.md"]


def test_parquet_has_the_same_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    runs = [ReportedRun("monday", measured())]
    write_report(runs, tmp_path / "r.parquet")
    table = parquet.read_table(tmp_path / "r.parquet")
    assert table.to_pydict() == over_time(runs)


def test_without_pyarrow_the_install_line_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'mooring\[parquet\]'"):
        write_report([ReportedRun("monday", measured())], tmp_path / "r.parquet")


def test_a_pod_that_comes_in_the_last_instant_is_in_the_plot() -> None:
    def tips(*pods: str) -> list[str]:
        meter = Meter()
        meter.put(0, make_node("a", cpu="4"))
        for name in pods:
            meter.put(600, make_pod(name))
        text = page([ReportedRun("late", meter.finish(600))])
        plot = text.partition("Pending pods by cause")[2].partition("</figure>")[0]
        return re.findall(r"in the queue[^<]*?: ([0-9.]+)", plot)

    assert tips() == []
    assert tips("late", "later")[-1] == "2"


@pytest.mark.parametrize("until_s", [60.0, 3600.0, 5424.7, 5490.0, 90_000.0, 7 * 86_400.0])
def test_no_time_label_exceeds_the_edge_of_a_plot(until_s: float) -> None:
    plot = lines("a", [0.0, until_s], [Series("pods", [1.0, 2.0])])
    marks = re.findall(r'<text x="([\d.]+)" y="220" text-anchor="middle">([^<]+)</text>', plot)
    assert marks
    assert all(float(x) + len(text) * CHARACTER / 2 <= WIDTH for x, text in marks)


def test_a_report_from_python(tmp_path: Path) -> None:
    run = mooring.simulate(mooring.Cluster(make_node("a"), make_pod("web", cpu="1")), record=tmp_path / "run.mrec")
    assert mooring.report(run, tmp_path / "run.mrec", to=tmp_path / "run.md") == tmp_path / "run.md"
    assert "run.mrec" in (tmp_path / "run.md").read_text() and "simulation" in (tmp_path / "run.md").read_text()
    with pytest.raises(AttributeError, match=r"no 'plot'; mooring.report\(simulation"):
        run.plot()  # type: ignore[attr-defined]
    for nothing in ((), (7,)):
        with pytest.raises(InputError, match=r"expected what mooring.simulate returns, or the path of a record"):
            mooring.report(*nothing, to=tmp_path / "run.md")  # type: ignore[arg-type]


def test_a_shadow_that_saw_no_decision_claims_nothing() -> None:
    page = shadow_page(Summary(), {"cluster": "<evil>"})
    assert "No decision was compared" in page and "&lt;evil&gt;" in page
    assert "Every decision" not in page and "<h2>Races</h2>" not in page


def test_pages_that_are_one_file_look_like_one_product() -> None:
    shadow = shadow_page(Summary(), {"scheduler": "default"})
    report = page([ReportedRun("monday", measured())])
    for made, kind in ((shadow, "shadow"), (report, "report")):
        assert f"<b>mooring</b> <bdi>{'monday' if kind == 'report' else 'Beside the scheduler'}</bdi>" in made
        assert f"<span>{kind}</span>" in made and "<script" not in made
        assert "--accent:#3f51b5" in made and "prefers-color-scheme:dark" in made
    assert "<h1>No decision was compared yet.</h1>" in shadow


@pytest.mark.parametrize(
    ("placed", "waits", "want"),
    [
        pytest.param(0, 0, "No pod had to be placed.", id="nothing"),
        pytest.param(2, 0, "All 2 pods have a node.", id="all placed"),
        pytest.param(1, 0, "The only pod has a node.", id="one placed"),
        pytest.param(1, 1, "1 of 2 pods still waits. It was rejected by NodeResourcesFit.", id="one waits"),
        pytest.param(0, 3, "3 of 3 pods still wait. Most were rejected by NodeResourcesFit.", id="all wait"),
    ],
)
def test_a_report_begins_with_what_came_out(placed: int, waits: int, want: str) -> None:
    meter = Meter()
    for i in range(placed + waits):
        each = make_pod(f"pod-{i}", cpu="1")
        meter.put(0, each)
        if i < placed:
            meter.put(1, bound(each, "node"))
        else:
            meter.refused(1, each.uid, frozenset(("NodeResourcesFit",)))
    assert f"<h1>{want}" in page([ReportedRun("run", meter.finish(60))])


def test_a_name_cannot_turn_the_direction_of_a_report() -> None:
    made = page([ReportedRun("a\u202eb", measured())])
    assert "a\\u202eb" in made and "\u202e" not in made
