"""The manifests as kubectl and the chart render them."""

from __future__ import annotations

import copy
import runpy
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
Object = dict[str, Any]


@pytest.fixture(scope="session")
def kustomize() -> Callable[[str], list[Object]]:
    """Renders a directory under deploy/ with the real kustomize, the one in kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    known: dict[str, list[Object]] = {}

    def render(directory: str) -> list[Object]:
        if directory not in known:
            command = [kubectl, "kustomize", str(DEPLOY / directory)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            known[directory] = list(yaml.safe_load_all(done.stdout))
        return copy.deepcopy(known[directory])

    return render


@pytest.fixture(scope="session")
def render_chart() -> Callable[..., list[Object]]:
    render = runpy.run_path(str(Path(__file__).parent / "helm_subset.py"))["render_chart"]

    def chart(**options: Any) -> list[Object]:
        objects: list[Object] = render(DEPLOY / "chart" / "mooring", **options)
        return objects

    return chart


@pytest.fixture(scope="session")
def manifests() -> Callable[[str], list[Object]]:
    """Reads a plain file under deploy/."""

    def read(path: str) -> list[Object]:
        return list(yaml.safe_load_all((DEPLOY / path).read_text()))

    return read
