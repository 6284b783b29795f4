"""The page in a notebook: with real ipywidgets and anywidget, with a real kernel, and its script in a real browser."""

from __future__ import annotations

import base64
import subprocess
import sys
from typing import Any

import msgspec
import pytest

import mooring
from mooring.api.errors import UsageError
from mooring.show import notebook
from mooring.show.notebook import Page, record_of, widget
from mooring.testing import make_node, make_pod

from .browsing import PATIENT_MS, sees
from .decoding import decode

pytest.importorskip("anywidget", reason="anywidget comes with the extra [notebook]")


def cluster() -> mooring.Cluster:
    nodes = [make_node(name, cpu="2") for name in ("a", "b")]
    return mooring.Cluster(*nodes, make_pod("fits", cpu="2"), make_pod("also", cpu="2"), make_pod("large", cpu="9"))


def test_a_clusters_pending_pods_are_decided_one_after_another():
    found = cluster()
    shown = widget(found)._shown
    table = [
        (shown.timeline.pod_names.values[shown.timeline.pods.columns["name"][pod]], aux & 7)
        for kind, pod, aux in zip(
            *(shown.timeline.events.columns[name] for name in ("kind", "pod", "aux")), strict=True
        )
        if kind == 4
    ]
    assert sorted(table) == [("default/also", 0), ("default/fits", 0), ("default/large", 1)]
    for event in shown.timeline.attempt_events:
        assert shown.why(shown.moment(event)())["again"] == ""  # the same answer from the record
    assert len(found.pending) == 3  # it stays as it is
    assert record_of(found)


def test_the_kernel_answers_what_a_server_would(story, built_page):
    made = widget("preemption")
    sent: list[tuple[dict[str, Any], bytes]] = []
    made.send = lambda content, buffers: sent.append((content, buffers[0]))
    for number, path in enumerate(("api/meta", "api/columns?record=0&have=", "api/why?record=0&event=x", "etc/passwd")):
        made._heard(made, {"id": number, "path": path}, [])
    assert [(each["id"], each["status"]) for each, _ in sent] == [(0, 200), (1, 200), (2, 400), (3, 400)]
    assert msgspec.json.decode(sent[0][1])["records"][0]["title"] == repr(made)[len("<MapWidget: ") : -1]
    assert decode(sent[1][1])[1]["events"] == made._shown.timeline.events.columns
    event = made._shown.timeline.attempt_events[-1]
    made._heard(made, {"id": 9, "path": f"api/why?record=0&event={event}"}, [])
    assert msgspec.json.decode(sent[-1][1])["pod"] == "default/important"


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mooring.show.widget", None)
    with pytest.raises(UsageError, match=r"pip install 'mooring\[notebook\]'"):
        notebook.widget("preemption")


NOTEBOOK = """
import nbformat
from nbclient import NotebookClient
cells = ["from mooring.show.notebook import widget, Page", "widget('first-placement')", "Page('first-placement')",
         "import mooring; from mooring.testing import make_node; mooring.Cluster(make_node('a'))"]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
done = NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
for cell in done.cells[1:]:
    print(sorted(cell.outputs[0].data))
"""


@pytest.mark.e2e
def test_a_real_kernel_shows_widget_page_and_cluster(built_page):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    command = [sys.executable, "-W", "ignore", "-c", NOTEBOOK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "application/vnd.jupyter.widget-view+json" in lines[0]
    assert "text/html" in lines[1] and "text/html" in lines[2]


HOST = """({ script, style, height }) => {
  const heard = [], el = document.createElement("div");
  document.body.append(el);
  const model = {
    get: (name) => ({ style_text: style, height })[name],
    on: (name, hear) => heard.push(hear),
    send: async ({ id, path }) => {
      const [status, type, text] = await window.ask(path);
      const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
      heard.forEach((hear) => hear({ id, status, type }, [new DataView(bytes.buffer)]));
    },
  };
  return import(URL.createObjectURL(new Blob([script], { type: "text/javascript" }))).then((module) => {
    module.default.render({ model, el });
  });
}"""


@pytest.mark.e2e
@pytest.mark.asyncio(loop_scope="module")
async def test_the_widgets_script_draws_map_and_why(launched, built_page):
    made = widget(cluster())
    wrong: list[str] = []
    page = await launched.new_page()
    page.set_default_timeout(PATIENT_MS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)

    def ask(path: str) -> tuple[int, str, str]:
        content_type, body = made.answer(path)
        return 200, content_type, base64.b64encode(body).decode()

    await page.expose_function("ask", ask)
    await page.evaluate(HOST, {"script": made._esm, "style": made.style_text, "height": made.height})
    await sees(page, ".mapPanel", "2 node")
    await sees(page, ".whyPanel .subject", "default/large")
    await sees(page, ".whyPanel", "Insufficient cpu")
    await page.get_by_role("button", name="previous decision").click()
    await sees(page, ".whyPanel .subject", "scheduled")
    await page.close()
    assert wrong == []
    assert repr(Page(cluster())) == "<Page: cluster>"
