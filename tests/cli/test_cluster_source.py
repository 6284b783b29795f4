"""Which cluster a question is about, and where a pod without a namespace is looked for."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mooring
from mooring.api.errors import InputError
from mooring.cli.main import run
from mooring.cli.options import ClusterSource
from mooring.record.reader import Record

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: shop}}
- {name: two, context: {cluster: c, user: u}}
"""
CLUSTER = """
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: '4', pods: '9'}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: c, image: i}]}}
"""


@pytest.mark.parametrize(
    ("source", "namespace"),
    [
        pytest.param({}, "shop", id="the context's"),
        pytest.param({"context": "two"}, "default", id="a context without one"),
        pytest.param({"namespace": "bank"}, "bank", id="the option wins"),
    ],
)
def test_where_names_are_looked_for_in_a_live_cluster(tmp_path: Path, source: dict[str, str], namespace: str) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    assert ClusterSource(kubeconfig=str(file), **source).names_in == namespace


@pytest.mark.parametrize("command", [["explain", "web"], ["capacity", "--pod", "web"]], ids=["explain", "capacity"])
def test_a_dump_takes_the_option_too(tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    assert run([*command, "--cluster", str(file)]) == 2
    assert "did you mean shop/web?" in capsys.readouterr().err
    assert run([*command, "--cluster", str(file), "-n", "shop"]) == 0
    assert "shop/web" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["-n", "shop"], ["--namespace=shop"], ["--namespace", "shop", "--kubeconfig", "x"]])
def test_options_of_kubectl_may_stand_before_the_command(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    behind = run(["explain", "web", "--cluster", str(file), *option]), capsys.readouterr()
    assert (run([*option, "explain", "web", "--cluster", str(file)]), capsys.readouterr()) == behind
    assert len(option) > 2 or behind[0] == 0


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_runs_it_as_its_own_command(tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-mooring"
    plugin.write_text(f"#!{sys.executable}\nfrom mooring.cli.main import main\nmain()\n")
    plugin.chmod(0o755)
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin:/usr/local/bin",
        "PYTHONPATH": ":".join(sys.path),
        "HOME": str(tmp_path),
    }
    asked = ["kubectl", "mooring", "explain", "web", "-n", "shop", "--cluster", str(file)]
    answer = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)
    assert answer.stdout.startswith("shop/web goes to a"), answer.stderr
    wrong = subprocess.run([*asked, "--wrong"], capture_output=True, text=True, env=environment, check=False)
    assert "see kubectl mooring explain --help" in wrong.stderr


# ---- files that hold no cluster, or not all of one ------------------------------------------------------------------

POD = "{apiVersion: v1, kind: Pod, metadata: {name: new}, spec: {containers: [{name: c, image: i}]}}"
SERVICE = "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {}}"
QUESTIONS = {
    "capacity": ["--pod", "pod.yaml"],
    "plan": ["--pod", "pod.yaml"],
    "drill": [],
    "diff": ["--version", "1.36", "1.37"],
    "explain": ["--pod", "pod.yaml"],
    "lint": ["pod.yaml"],
    "mcp": [],
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("recorded") / "run.mrec"
    assert run(["simulate", "preemption", "--record", str(file)]) == 0
    return file.read_bytes()


@pytest.mark.parametrize("command", QUESTIONS)
@pytest.mark.parametrize("content", [b"", b"---\n", SERVICE.encode(), POD.encode(), b"record"])
def test_a_file_without_nodes_is_no_cluster(
    command: str,
    content: bytes,
    recorded: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pod.yaml").write_text(POD)
    if content == b"record":  # its header, and the beginning of what follows
        content = next(recorded[:end] for end in range(300, len(recorded), 100) if _has_header(recorded[:end]))
    Path("cluster").write_bytes(content)
    capsys.readouterr()
    assert run([command, *QUESTIONS[command], "--cluster", "cluster"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "mooring: cluster: found no nodes" in err.splitlines()[-1]


@pytest.mark.parametrize("command", ["simulate", "import"])
def test_a_record_of_nothing_is_no_story(
    command: str, recorded: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.mrec"
    cut.write_bytes(next(recorded[:end] for end in range(300, len(recorded), 100) if _has_header(recorded[:end])))
    capsys.readouterr()
    assert run([command, str(cut)]) == 2
    assert "nothing to simulate; expected nodes, pods or workloads; found end of the record" in capsys.readouterr().err


NO_CLUSTER = """\
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1
"""


@pytest.mark.parametrize(
    "command", [["simulate"], ["import"], ["tune"], ["report", "--html", "page.html"]], ids=lambda words: words[0]
)
def test_objects_without_nodes_and_pods_are_no_story(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("web.yaml").write_text(NO_CLUSTER)
    assert run([*command, "web.yaml"]) == 2
    out, err = capsys.readouterr()
    assert (
        "nothing to simulate; expected nodes, pods or workloads; found only 1 × Service, 1 × PriorityClass"
        in " ".join(err.split())
    )
    assert out == "" and not Path("page.html").exists()


def test_a_step_may_import_what_others_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "web.yaml").write_text(NO_CLUSTER)
    story = tmp_path / "story.yaml"
    story.write_text("steps:\n- nodes: {count: 1}\n- import: web.yaml\n")
    assert run(["simulate", str(story)]) == 0
    assert "1 node" in capsys.readouterr().out


def _has_header(content: bytes) -> bool:
    try:
        Record(io.BytesIO(content))
    except InputError:
        return False
    return True


@pytest.mark.parametrize("command", sorted(QUESTIONS.keys() - {"mcp"}))
def test_a_truncated_record_is_reported_with_every_answer(
    command: str,
    recorded: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pod.yaml").write_text(POD)
    Path("cut.mrec").write_bytes(recorded[:-1])
    assert run([command, *QUESTIONS[command], "--cluster", "cut.mrec"]) in (0, 1)
    assert capsys.readouterr().err.startswith("warning: cut.mrec: the record was cut off")


@pytest.mark.parametrize(
    "command",
    ["replay cut.mrec", "report cut.mrec", "simulate cut.mrec", "diff --record cut.mrec --record cut.mrec"],
)
def test_a_truncated_record_is_reported_by_commands_that_read_all_of_it(
    command: str,
    recorded: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cut.mrec").write_bytes(recorded[:-1])
    assert run(command.split()) in (0, 1)
    assert capsys.readouterr().err.count("cut.mrec: the record was cut off") == 1


def test_python_takes_no_file_that_holds_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    with pytest.raises(InputError, match=r"empty\.yaml: found nothing that scheduling reads; there is nothing in it"):
        mooring.load(empty)
    with pytest.raises(InputError, match="ignored 1 object that scheduling does not read: 1 ConfigMap"):
        mooring.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
