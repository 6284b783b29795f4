"""The documentation builds without a warning, its generated pages say what the code says, and its commands work."""

from __future__ import annotations

import asyncio
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.controlplane.kinds import NODES, PODS
from mooring.controlplane.server import ControlPlane

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OTHERS = ("learn/", "parity.md", "performance.md", "scenarios.md")  # tested where they are written
OWN = [page for page in sorted(DOCS.rglob("*.md")) if not str(page.relative_to(DOCS)).startswith(OTHERS)]


@pytest.mark.e2e
def test_the_site_builds_in_strict_mode(tmp_path):
    pytest.importorskip("material", reason="the documentation's tools come with the extra [docs]")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment)
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert (done.returncode, warnings) == (0, []), done.stderr
    pages = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*.html")}
    assert pages >= {"index.html", "run/index.html", "reference/cli.html", "reference/plugins.html", "explain.html"}
    cli = (tmp_path / "site" / "reference" / "cli.html").read_text()
    assert "mooring bench decide" in cli


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    made = runpy.run_path(str(ROOT / "scripts" / "docs_pages.py"))["PAGES"]
    return {name: make() for name, make in made.items()}


def test_every_plugin_is_described_in_two_sentences(pages):
    from mooring.plugins.in_tree import IN_TREE, OPTIONAL

    rows = dict(re.findall(r"^\| \*\*(\w+)\*\* \| (.*?) \|", pages["reference/plugins.md"], re.MULTILINE))
    assert list(rows) == [plugin.__name__ for plugin in (*IN_TREE, *OPTIONAL)]
    for name, text in rows.items():
        sentences = re.split(r"(?<=[.!?)]) (?=[A-Z`])", text)
        assert len(sentences) == 2, f"{name}: {text}"


def test_every_command_is_described(pages):
    from mooring.cli.main import cli

    for name in cli.list_commands(None):
        assert f"## mooring {name}\n" in pages["reference/cli.md"]
    assert "--leader-elect-lease-duration" in pages["reference/cli.md"]


def test_every_field_of_the_configuration_is_described(pages):
    import msgspec

    from mooring.config import types

    text = pages["reference/configuration.md"]
    for kind in (types.KubeSchedulerConfiguration, types.Extender, *types.ARGS_TYPES.values()):
        assert f"# {kind.__name__}\n" in text
        for field in msgspec.structs.fields(kind):
            assert f"`{field.encode_name}`" in text
    assert "| `leaseDuration` | duration | `15s` |" in text
    assert "| `scoringStrategy` | [ScoringStrategy](#scoringstrategy) |" in text


def test_every_metric_is_described(pages):
    from mooring.observe.metrics import SchedulerMetrics

    for name in SchedulerMetrics().registry.names():
        assert f"`{name}`" in pages["reference/metrics.md"]


def test_the_picture_shows_what_the_command_prints():
    command = [sys.executable, str(ROOT / "scripts" / "picture.py"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _commands() -> list[tuple[str, str]]:
    found = []
    for page in OWN:
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            found += [(str(page.relative_to(ROOT)), line[2:]) for line in block.splitlines() if line.startswith("$ ")]
    return list(dict.fromkeys(found))


@pytest.mark.e2e
@pytest.mark.parametrize(("page", "command"), _commands())
def test_a_command_in_the_documentation_works(page, command):
    program, *arguments = shlex.split(command)
    if program == "mooring":
        words = [sys.executable, "-m", "mooring", *arguments]
    elif program == "python":
        words = [sys.executable, *arguments]
    else:
        assert program == "kubectl", f"{page}: {command}"
        if shutil.which("kubectl") is None:
            pytest.skip("kubectl is not installed")
        words = [program, *arguments]
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=ROOT)
    may_say_no = arguments[:1] == ["explain"]
    assert done.returncode in ((0, 1) if may_say_no else (0,)), f"{page}: {command}: {done.stderr}"
    assert "Traceback" not in done.stderr


@pytest.mark.e2e
async def test_the_last_resort_binds_a_schedulers_pod_by_hand(tmp_path):
    """When no scheduler is left to place the scheduler: the commands in replace.md, with the real kubectl."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    text = (DOCS / "run" / "replace.md").read_text()
    (script,) = [
        block for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "Binding" in block
    ]
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig") as plane:
        plane.api.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}})
        metadata = {"name": "mooring-x", "labels": {"app.kubernetes.io/name": "mooring"}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        plane.api.create(PODS, "kube-system", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        environment = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "kubeconfig")}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec("bash", "-ec", script, env=environment, stdout=pipe, stderr=pipe)
        _, errors = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, errors.decode()
        assert plane.api.get(PODS, "kube-system", "mooring-x").object()["spec"]["nodeName"] == "worker-1"


@pytest.mark.parametrize("page", OWN, ids=lambda page: str(page.relative_to(DOCS)))
def test_files_that_a_page_names_exist(page):
    """Paths in code spans and in shell blocks, from the top of the repository."""
    text = page.read_text()
    named = re.findall(r"(?<![\w/.])((?:deploy|scripts|examples|tests|decisions|docs|src)/[\w./-]*[\w/])", text)
    for path in named:
        assert (ROOT / path).exists(), f"{page.name} names {path}"


@pytest.mark.parametrize("page", OWN, ids=lambda page: str(page.relative_to(DOCS)))
def test_flags_that_a_page_names_exist(page):
    """What follows `mooring run`, and flags in code spans that no other command has."""
    from mooring.scheduler.flags import parse_flags

    for line in re.findall(r"^mooring run (.*?)(?:  #.*)?$", page.read_text(), re.MULTILINE):
        parse_flags(shlex.split(line))
