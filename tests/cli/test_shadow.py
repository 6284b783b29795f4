"""``mooring shadow``: beside a scheduler on the embedded API server, with nothing but get, list and watch."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import MooringError
from mooring.cli.main import run
from mooring.controlplane.registry.catalog import by_resource
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import ApiUser, Attributes, write_kubeconfig
from mooring.core.config.load import default_config
from mooring.live.live_scheduler import LiveScheduler
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient
from mooring.record.entries import Note
from mooring.record.reader import Record
from mooring.sim.backend import Backend
from mooring.sim.scenario import node, pod
from tests.controlplane.rbac import Rbac

from ..deploy.conftest import kustomize as kustomize  # a fixture
from ..docs.test_formats import check

WAIT_S = 120.0
ACCOUNT = ApiUser(
    "system:serviceaccount:kube-system:mooring-shadow",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
PACK = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
"""


async def shadowing(
    folder: Path, arguments: list[str], objects: list[dict[str, Any]], then: Callable[[Backend], Awaitable[None]]
) -> tuple[int, dict[str, Any], str, list[Attributes]]:
    """Run the command as a process beside a scheduler; returns its exit code, what it said, and what it was refused."""
    refused: list[Attributes] = []

    def authorizer(api: Api) -> Callable[[Attributes], bool]:
        rbac = Rbac(api)

        def allows(asked: Attributes) -> bool:
            is_allowed = rbac(asked)
            if asked.user == ACCOUNT.name and not is_allowed:
                refused.append(asked)
            return is_allowed

        return allows

    admin, limited = folder / "admin", folder / "limited"
    async with ControlPlane(kubeconfig_path=admin, authorizer=authorizer) as plane:
        for obj in objects:
            if obj["kind"] in ("ClusterRole", "ClusterRoleBinding"):
                plane.api.create(by_resource(f"{obj['kind'].lower()}s.rbac.authorization.k8s.io"), "", obj)
        write_kubeconfig(limited, plane.url, plane.access.issue(ACCOUNT), plane.certificate)
        config = load_kubeconfig([str(admin)], environ={})
        async with (
            RestClient(config, qps=-1) as theirs,
            RestClient(config, qps=-1) as client,
            LiveScheduler(theirs, default_config(), None, hostname="HOST"),
            asyncio.timeout(WAIT_S),
        ):
            backend = Backend(client)
            await backend.create(node("empty", cpu="4"))
            await backend.create(node("busy", cpu="4"))
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mooring", "shadow", "--kubeconfig", str(limited), "-o", "json"),
                *(*arguments, "--record", "r.mrec"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
            )
            assert process.stderr is not None
            said = b""
            while b"Watching" not in said:
                line = await process.stderr.readline()
                assert line, said
                said += line
            await then(backend)
            while not has_seen(folder / "r.mrec", "last"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, json.loads(out), (said + err).decode(), refused


def has_seen(path: Path, name: str) -> bool:
    """Whether the record, which is being written, has an attempt at a pod."""
    with contextlib.suppress(MooringError), Record.open(path, follows=True) as record:
        return any(attempt.key == f"default/{name}" for _, attempt in record.attempts())
    return False


async def three_pods(backend: Backend) -> None:
    """One that binds, one that fits nowhere, and the last one."""
    for name, cpu in (("first", "1"), ("large", "9"), ("last", "1")):
        await backend.create(pod(name, cpu=cpu))


@pytest.mark.e2e
async def test_beside_a_scheduler_with_the_role_of_the_manifest(
    tmp_path: Path, kustomize: Callable[[str], list[dict[str, Any]]]
) -> None:
    objects = kustomize("shadow")
    (role,) = (obj for obj in objects if obj["kind"] == "ClusterRole")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    code, found, said, refused = await shadowing(tmp_path, ["--report", "r.html"], objects, three_pods)
    assert (code, refused) == (0, [])
    check("shadow-v1", found)
    assert found["decisions"] == found["agreeing"] == 3 and found["refusals"]["sameWords"] == 1
    assert found["schedulerNames"] == ["default-scheduler"] and found["kubernetes"] == "1.36"
    assert "mooring replay r.mrec opens it" in said
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Beside the scheduler" in text and "<script" not in text
    with Record.open(tmp_path / "r.mrec", follows=True) as record:
        assert record.is_complete and record.num_attempts == 3


@pytest.mark.e2e
async def test_another_configuration_beside_what_happens(
    tmp_path: Path, kustomize: Callable[[str], list[dict[str, Any]]]
) -> None:
    (tmp_path / "pack.yaml").write_text(PACK)
    code, found, said, _ = await shadowing(tmp_path, ["--config", "pack.yaml"], kustomize("shadow"), three_pods)
    check("shadow-v1", found)
    (moved,) = found["differences"]  # the second small pod: packed onto the first one's node
    assert code == 1 and found["causes"] == {"configuration": 1}
    assert (moved["pod"], moved["plugin"], moved["agreement"]) == ("default/last", "NodeResourcesFit", "otherNode")
    assert "default/last" in said
    with Record.open(tmp_path / "r.mrec", follows=True) as record:
        notes = [entry for _, entry in record.entries() if isinstance(entry, Note)]
    assert [note.kind for note in notes] == ["shadow"] and notes[0].text.startswith("default/last")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--for", "soon"], "--for soon: time: invalid duration", id="no duration"),
        pytest.param(["--report", "x.pdf"], "--report x.pdf: expected a name that ends in .html", id="no page"),
        pytest.param(["--report", "absent/x.html"], "absent/x.html: no such file or directory", id="no directory"),
        pytest.param(["--kubeconfig", "absent"], "absent", id="no kubeconfig"),
        pytest.param(["--scheduler-name", ""], "--scheduler-name: expected the name of a scheduler", id="no name"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["shadow", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_page_from_before_stays_if_there_is_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "hour.html"
    page.write_text("yesterday's")
    assert run(["shadow", "--kubeconfig", "absent", "--report", "hour.html"]) == 2
    assert page.read_text() == "yesterday's"
