"""``import mooring``: few names, imported when they are used, and documented on a page that does what it says."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import mooring

ROOT = Path(mooring.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "python.md"


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return done.stdout.strip()


def test_importing_it_imports_nothing_heavy() -> None:
    loaded = set(run("import sys, mooring; print(*sys.modules)").split())
    assert {name for name in loaded if name.startswith("mooring")} == {"mooring", "mooring.api", "mooring.api.version"}
    assert not loaded & {"numpy", "msgspec", "asyncio", "rich", "typing", "json"}


@pytest.mark.parametrize("name", mooring.__all__)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    value = getattr(mooring, name)
    assert name in dir(mooring)
    if name != "__version__":
        assert (value.__doc__ or "").strip()


def test_the_function_explain_is_not_hidden_by_a_package() -> None:
    assert (
        run("import mooring.core.explain.why, mooring.ask.scheduler, mooring; print(callable(mooring.explain))")
        == "True"
    )


def test_another_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'Clutser'; it offers .*Cluster, "):
        mooring.Clutser  # type: ignore[attr-defined]


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(mooring.__all__) <= imported


def test_the_page_names_everything() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in mooring.__all__:
        assert name == "__version__" or re.search(rf"\b{name}\b", page), name


# ---- the page ----------------------------------------------------------------------------------------------------


def node(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name}
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "labels": labels}
    return {"kind": "Node", "metadata": metadata, "spec": spec, "status": {"allocatable": amounts, "capacity": amounts}}


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": [container], **spec}}


DUMP = {
    "kind": "List",
    "items": [
        node("node-1", "4"),
        node("node-2", "4"),
        node("node-3", "4", unschedulable=True),
        pod("db-0", "1", nodeName="node-1"),
        pod("web-7", "500m"),
        pod("job-1", "100m"),
    ],
}


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump.json").write_text(json.dumps(DUMP))
    names: dict[str, Any] = {}
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 12
    printed = ""
    for language, block in blocks:
        if language == "python":
            page = StringIO()
            with redirect_stdout(page):
                exec(block, names)
            printed = page.getvalue()
        else:
            pattern = ".*".join(re.escape(part) for part in block.strip().split("…"))
            assert re.fullmatch(pattern, printed.strip(), re.DOTALL), f"the page says:\n{block}\nit is:\n{printed}"
