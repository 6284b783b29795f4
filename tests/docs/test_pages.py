"""Every command and every piece of Python on a page of the documentation works as it is pasted."""

from __future__ import annotations

import json
import os
import re
import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.api import yaml
from tests.faults.plan import FAULTS
from tests.faults.story import SHAPE

from .test_texts import Terminal
from .texts import REPOSITORY, Step, WrittenFile, follows, parts

DOCS = REPOSITORY / "docs"
MADE = runpy.run_path(str(REPOSITORY / "scripts" / "docs_pages.py"))["PAGES"]  # from the code
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if "learn" not in page.parts and str(page.relative_to(DOCS)) not in MADE  # the course has tests of its own
]
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)

# Commands that are not run on their page: why, or where they are run instead.
ELSEWHERE = {
    r"make (start|release|lock|audit|soak|bench|docs)\b.*": "takes minutes or the network; CI runs some of it",
    r"pip install (\.|'\.\[fast\]'|dist/.*)": "tests/packaging installs the wheel into an empty environment",
    r"docker .*": "needs Docker; tests/deploy/test_dockerfile.py reads the file",
    r"helm .*": "needs Helm; tests/deploy renders the chart",
    r"(cp|mv) .*/etc/kubernetes/.*": "needs a control plane node; tests/deploy checks the manifest",
    r"mooring bench perf (SchedulingBasic/5000.*|--label performance|--dir path/to/scheduler_perf)": "takes minutes",
    r"kubectl get .*workloads\.kueue\.x-k8s\.io .*": "needs Kueue; tests/cli/test_admission.py reads a live cluster",
    r"mooring run .*": "tests/e2e runs it; test_commands_and_flags_that_a_page_names_exist reads its flags",
    r"mooring extender serve --plugin .*": "tests/extender serves plugins",
    r"mooring extender check http://my-extender\.example:8888": "an example; extenders.md runs it",
    r"kubectl describe pod web-0|mooring explain default/web-0": "an example; explain.md asks a live cluster",
    r"kubectl -n kube-system get (lease|pods) .*": "test_installing_and_upgrading_as_the_pages_say asks for them",
    r"mooring queue --insecure-skip-tls-verify": "test_front_page.py runs it beside mooring run",
    r"kubectl -n kube-system (port-forward|logs|set env) .*": "needs a kubelet; deploy and e2e tests run the rest",
    r"kubectl (apply -f deploy/sample-.*|describe pod -l app=test.*|label node gpu02.*)": "tests/deploy applies them",
}
# Pages whose shell blocks tests/deploy/test_docs.py runs on an embedded cluster.
ON_A_CLUSTER = {"run/index.md", "run/shadow.md", "run/beside.md", "run/replace.md", "run/runbook/upgrade.md"}


def name(page: Path) -> str:
    return str(page.relative_to(DOCS))


def is_elsewhere(command: str) -> bool:
    return any(re.fullmatch(pattern, command) for pattern in ELSEWHERE)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal in a folder that looks like a clone; what a reader installs goes into a folder beside it."""
    clone, site = tmp_path / "clone", tmp_path / "site"
    clone.mkdir()
    site.mkdir()
    for folder in ("examples", "deploy", "scripts", "tests", "tools", "src", "docs"):
        (clone / folder).symlink_to(REPOSITORY / folder)
    monkeypatch.chdir(clone)
    monkeypatch.syspath_prepend(str(site))
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    pip = {"PIP_TARGET": str(site), "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PYTHONUNBUFFERED": "1"}
    opened = Terminal({**os.environ, "HOME": str(tmp_path), "PYTHONPATH": path, **pip, **quiet})
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


RUN = [page for page in PAGES if any(isinstance(part, Step) for part in parts(page.read_text(encoding="utf-8")))]


@pytest.mark.e2e
@pytest.mark.timeout(900)  # only against hanging
@pytest.mark.parametrize("page", RUN, ids=name)
def test_the_commands_of_a_page_work_in_order(page: Path, terminal: Terminal, free_port: int) -> None:
    for part in parts(page.read_text(encoding="utf-8")):
        if isinstance(part, WrittenFile):
            Path(part.name).write_text(part.content)
        elif not is_elsewhere(part.command):
            command = part.command.replace("8888", str(free_port))
            if command.startswith("mooring extender serve "):
                command = command.replace(" &", f" --port {free_port} &")
            printed = terminal.type(command, part.exit_code)
            if part.expected:
                assert follows(part.expected, printed.splitlines()), f"{part.command} printed:\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_other_command_is_run_elsewhere_or_cannot_be_run(page: Path) -> None:
    """Blocks for the shell are for what needs more than a clone: each line is accounted for."""
    if name(page) in ON_A_CLUSTER:
        return
    blocks = [block for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == "sh"]
    lines = [re.split(r"  +#| > | &$", line.strip())[0].strip() for block in blocks for line in block.splitlines()]
    assert [line for line in lines if line and not is_elsewhere(line)] == []


# tests/test_front_door.py runs python.md, beside the files that it names.
PYTHON = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8") and page.name != "python.md"]


@pytest.mark.parametrize("page", PYTHON, ids=name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a page run one after another, and tests in them pass. Blocks that are files are run as commands say."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python" and not re.match(r"# [\w-]+\.py\n", block):
            if block.startswith(" "):
                assert block in _source(), f"{name(page)} quotes what is not in the code:\n{block}"
            else:
                exec(compile(block, name(page), "exec"), names)
    for each in [value for key, value in names.items() if key.startswith("test_") and callable(value)]:
        if not each.__code__.co_argcount:  # others take a fixture
            each()


def _source() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "src" / "mooring").rglob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_yaml_and_json_on_a_page_can_be_read(page: Path) -> None:
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "yaml":
            yaml.load_all(block, name(page))
        elif kind == "json":
            json.loads(re.sub(r"^//.*\n", "", block))


def test_pictures_and_reference_pages_are_what_the_code_says() -> None:
    for script in ("docs_pictures.py", "docs_formats.py", "docs_pages.py"):
        command = [sys.executable, str(REPOSITORY / "scripts" / script), "--check"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_every_fault_and_every_field_of_a_soak_is_documented() -> None:
    page = (DOCS / "run" / "soak.md").read_text(encoding="utf-8")
    part = page[page.index("## Write a story with faults") : page.index("## After a restore of etcd")]
    named = set(re.findall(r"`([\w-]+)", part)) | set(re.findall(r"(\w+): ", part))
    assert named >= {*FAULTS} - {"cordon-node"} | {*SHAPE}
