"""Every command of the front page works as it is pasted, and prints what the page says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from pathlib import Path

import pytest

from mooring.api import yaml
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient

from .test_texts import Terminal
from .texts import REPOSITORY, Step, follows, parts

PAGE = REPOSITORY / "README.md"
STEPS = [part for part in parts(PAGE.read_text(encoding="utf-8")) if isinstance(part, Step)]
SCHEDULER_PORT = 10259


async def prepare_what_the_page_schedules(kubeconfig: Path) -> None:
    """Label a node and create the pod of the example."""
    (pod,) = yaml.load_all((REPOSITORY / "examples/01-first-plugin/pod.yaml").read_text(), "pod.yaml")
    async with RestClient(find_config(str(kubeconfig))) as client:
        label = json.dumps({"metadata": {"labels": {"cpu": "true"}}}).encode()
        await client.patch("/api/v1/nodes/node1", label)
        await client.create("/api/v1/namespaces/default/pods", json.dumps(pod).encode())


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_the_commands_work_in_the_order_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a clone, beside a cluster that kubectl knows as ~/.kube/config."""
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    kubeconfig = tmp_path / ".kube" / "config"
    kubeconfig.parent.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    terminal = Terminal({**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        terminal.type(f"mooring start --keep --nodes 2 --write-kubeconfig {kubeconfig} &")
        asyncio.run(prepare_what_the_page_schedules(kubeconfig))
        for step in STEPS:
            command = re.sub(r"(?<= )~", str(tmp_path), step.command)
            if command == "make start":
                continue  # how a clone becomes an installation is tested where packaging is
            if command.startswith("mooring run "):
                if is_taken(SCHEDULER_PORT):
                    continue  # by a scheduler of the machine that the tests run on
                printed = terminal.start(command, until="Successfully bound")
            else:
                printed = terminal.type(command, exit_code=step.exit_code)
            if step.expected:
                assert follows(step.expected, printed.splitlines()), f"{command} printed:\n{printed}"
    finally:
        terminal.close()


def test_the_page_leads_into_the_course() -> None:
    assert "mooring learn 1" in [step.command for step in STEPS]


def test_every_file_that_a_command_names_is_there() -> None:
    named = [word for step in STEPS for word in step.command.split() if re.match(r"(examples|tests|docs)/", word)]
    assert named and [word for word in named if not (REPOSITORY / word).exists()] == []


EXAMPLES = sorted((REPOSITORY / "examples").glob("*/README.md"))


@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.parent.name)
def test_an_examples_commands_print_what_its_page_says(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free_port = str(probe.getsockname()[1])
    steps = [part for part in parts(page.read_text(encoding="utf-8")) if isinstance(part, Step)]
    assert steps
    for step in steps:
        if "extender serve" in step.command or "extender check" in step.command:  # 8888 may be taken
            step.command = step.command.replace("8888", free_port).replace(".py &", f".py --port {free_port} &")
            step.expected = [line.replace("8888", free_port) for line in step.expected]
    in_the_clone = any(" examples/" in step.command for step in steps)
    monkeypatch.chdir(REPOSITORY if in_the_clone else page.parent)
    terminal = Terminal({**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        for step in steps:
            printed = terminal.type(step.command, step.exit_code)
            if step.expected:
                assert follows(step.expected, printed.splitlines()), f"{step.command} printed:\n{printed}"
    finally:
        terminal.close()
