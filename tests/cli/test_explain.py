"""mooring explain: what people see, what programs get, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mooring
from mooring.api import yaml
from mooring.api.errors import InputError, OtherScheduler
from mooring.cli.main import run

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: node-2, labels: {kubernetes.io/hostname: node-2}}
spec: {taints: [{key: dedicated, value: gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: 16, memory: 64Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: node-3, labels: {kubernetes.io/hostname: node-3}}
status: {allocatable: {cpu: 2, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Pod
metadata: {name: running, namespace: shop}
spec:
  nodeName: node-1
  containers: [{name: a, resources: {requests: {cpu: 3}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: unread}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: a, resources: {requests: {cpu: %s}}}]
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "small.yaml").write_text(POD % "500m")
    (tmp_path / "large.yaml").write_text(POD % "2100m")
    return tmp_path


def test_fields_without_effect_are_warned_about(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "typo.yaml").write_text((POD % "500m").replace("spec:", "spec:\n  nodeSelectr: {disk: ssd}"))
    (files / "more.yaml").write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: spare}\nspec: {unschedulabel: true}\n"
    )
    assert run(["explain", "--cluster", "cluster.yaml", "--cluster", "more.yaml", "--pod", "typo.yaml"]) == 0
    assert capsys.readouterr().err.splitlines()[1:] == [
        'warning: more.yaml: Node spare: unknown field "spec.unschedulabel"; did you mean unschedulable?',
        'warning: typo.yaml: Pod web: unknown field "spec.nodeSelectr"; did you mean nodeSelector?',
    ]


def test_a_placement_for_people(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "small.yaml"]) == 0
    out = capsys.readouterr()
    assert out.err == "mooring: ignored 1 object that scheduling does not read: 1 ConfigMap\n"
    lines = out.out.splitlines()
    assert lines[0] == "default/web goes to node-3"
    assert lines[1] == "2 of 3 nodes can take it."
    assert lines[3].split()[:3] == ["NODE", "TOTAL", "TaintToleration"]
    assert [line.split()[0] for line in lines[4:6]] == ["node-3", "node-1"]
    assert "\x1b" not in out.out


def test_a_refusal_for_people(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "large.yaml"]) == 1
    out = capsys.readouterr().out
    assert (
        "default/web fits nowhere\n0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
        in out
    )
    assert "2       Insufficient cpu                   NodeResourcesFit   node-1, node-3\n" in out
    helps = out.partition("each was tried:\n")[2].splitlines()
    assert helps[:2] == [
        "  100m less CPU (2 instead of 2100m) on node-3",
        "  tolerate dedicated=gpu:NoSchedule: 1 more node (node-2)",
    ]


def test_json_has_everything(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "large.yaml", "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["outcome"] == "unschedulable"
    assert found["message"].startswith("0/3 nodes are available:")
    assert found["statuses"]["node-2"]["plugin"] == "TaintToleration"
    assert {tuple(group["nodes"]) for group in found["groups"]} == {("node-1",), ("node-2",), ("node-3",)}
    assert found["statuses"]["node-1"]["code"] == "UNSCHEDULABLE"
    assert found["statuses"]["node-3"]["code"] == "UNSCHEDULABLE_AND_UNRESOLVABLE"  # more than the whole node
    assert found["suggestions"][0]["nodes"] == ["node-3"]


def test_yaml_shows_the_scores(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "small.yaml", "-o", "yaml"]) == 0
    found = yaml.load(capsys.readouterr().out)
    assert found["node"] == "node-3"
    for share in found["scores"]:
        assert sum(share["plugins"].values()) == share["total"]


def test_a_terminating_pod_is_not_placed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leaving = (POD % "500m").replace("web}", 'leaving, namespace: shop, deletionTimestamp: "2026-01-01T00:00:00Z"}')
    (files / "cluster.yaml").write_text(f"{CLUSTER}---{leaving}")
    run(["explain", "--cluster", "cluster.yaml", "--pod", "shop/leaving"])
    assert "Note: the pod is being deleted: no scheduler places it any more" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["pod/running", "po/running", "pods/shop/running"])
def test_a_pod_may_be_named_as_kubectl_names_it(name: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--cluster", "cluster.yaml", "-n", "shop", name]) == 0
    assert "shop/running goes to node-1" in capsys.readouterr().out


def test_top_limits_the_table(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["explain", "--cluster", "cluster.yaml", "--pod", "small.yaml", "--top", "1"])
    out = capsys.readouterr().out
    assert "… and 1 more (--top N shows N)" in out


def test_a_running_pod_is_explained_as_if_it_were_new(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Itself taken out, node-1 has room for it again."""
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "shop/running"]) == 0
    out = capsys.readouterr().out
    assert "shop/running goes to node-1" in out
    assert "Note: the pod is on node-1 already; this says where it would go if it came now" in out


def test_the_same_pod_from_a_file_replaces_the_one_in_the_dump(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "running.yaml").write_text(POD.replace("web}", "running, namespace: shop}") % "4")
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "running.yaml"]) == 0


WORKLOAD = """
apiVersion: %s
kind: %s
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: a, resources: {requests: {cpu: %s}}}]}
"""


@pytest.mark.parametrize(
    ("version", "kind", "name"),
    [
        pytest.param("apps/v1", "Deployment", "web-xxxxx", id="Deployment"),
        pytest.param("apps/v1", "StatefulSet", "web-0", id="StatefulSet"),
        pytest.param("apps/v1", "DaemonSet", "web-xxxxx", id="DaemonSet"),
        pytest.param("apps/v1", "ReplicaSet", "web-xxxxx", id="ReplicaSet"),
        pytest.param("batch/v1", "Job", "web-xxxxx", id="Job"),
    ],
)
def test_a_workload_is_explained_by_its_first_pod(
    version: str, kind: str, name: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "web.yaml").write_text(WORKLOAD % (version, kind, "500m"))
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "web.yaml"]) == 0
    assert capsys.readouterr().out.startswith(f"default/{name} goes to node-3\n")
    (files / "web.yaml").write_text(WORKLOAD % (version, kind, "20"))
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "web.yaml"]) == 1


def test_what_a_manifest_brings_along_is_created_with_its_pod(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    priority = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 7\n---"
    job = (WORKLOAD % ("batch/v1", "Job", "2100m")).replace(
        "spec: {containers", "spec: {priorityClassName: high, containers"
    )
    (files / "job.yaml").write_text(priority + job)
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "job.yaml"]) == 1
    out = capsys.readouterr().out
    assert "Room can be made on node-1 by evicting:\n  shop/running (priority 0)" in out


def test_a_daemon_set_has_a_note(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "web.yaml").write_text(WORKLOAD % ("apps/v1", "DaemonSet", "500m"))
    run(["explain", "--cluster", "cluster.yaml", "--pod", "web.yaml", "-o", "json"])
    assert "every node" in json.loads(capsys.readouterr().out)["notes"][0]


def test_a_misspelt_field_of_a_workload_is_reported_with_its_path(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (WORKLOAD % ("apps/v1", "Deployment", "1")).replace(
        "spec: {containers", "spec: {tolerationz: [], containers"
    )
    (files / "web.yaml").write_text(text)
    run(["explain", "--cluster", "cluster.yaml", "--pod", "web.yaml"])
    assert (
        'warning: web.yaml: Deployment web: unknown field "spec.template.spec.tolerationz"; did you mean tolerations?'
        in capsys.readouterr().err
    )


BAD_QUANTITY = POD % "lots"
TWO_NODES = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"


@pytest.mark.parametrize(
    ("extra", "args", "line"),
    [
        pytest.param(
            BAD_QUANTITY,
            ["--cluster", "cluster.yaml", "--pod", "extra.yaml"],
            "extra.yaml: Pod web: spec.containers[0].resources.requests[cpu]: 'lots' is not a quantity; "
            "write a number with a suffix such as 500m, 2 or 1.5Gi",
            id="a bad quantity",
        ),
        pytest.param(
            (POD % "1") + "  tolerations: [{operator: Maybe}]",
            ["--cluster", "cluster.yaml", "--pod", "extra.yaml"],
            "extra.yaml: Pod web: spec.tolerations[0].operator: 'Maybe' is not known; use one of Equal, Exists, Lt, Gt",
            id="a bad operator",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {}",
            ["--cluster", "cluster.yaml", "--pod", "extra.yaml"],
            "extra.yaml: Deployment: spec.template: missing; a controller cannot make a pod without it",
            id="a workload without a template",
        ),
        pytest.param(
            (WORKLOAD % ("apps/v1", "Deployment", "1")) + "---" + (WORKLOAD % ("batch/v1", "Job", "1")),
            ["--cluster", "cluster.yaml", "--pod", "extra.yaml"],
            "extra.yaml: expected one Pod or one workload that makes pods, found Deployment web, Job web",
            id="two workloads",
        ),
        pytest.param(
            TWO_NODES,
            ["--cluster", "cluster.yaml", "--cluster", "extra.yaml", "--pod", "small.yaml"],
            "extra.yaml: Node node-1 is already in cluster.yaml, document 1 (line 2); "
            "there can be only one of that name",
            id="two nodes of one name",
        ),
        pytest.param(
            "",
            ["--cluster", "cluster.yaml", "--pod", "shop/runing"],
            "shop/runing: no such file, and no such pod among the 1 of the cluster; did you mean shop/running?",
            id="a pod that is not there",
        ),
        pytest.param(
            "",
            ["--cluster", "cluster.yaml", "--pod", "running"],
            "running: no such file, and no such pod among the 1 of the cluster; did you mean shop/running?",
            id="a pod of another namespace",
        ),
        pytest.param(
            "",
            ["--cluster", "cluster.yaml", "--pod", "shop/foo"],
            "shop/foo: no such file, and no such pod among the 1 of the cluster; "
            "expected a manifest file, or namespace/name of a pod of the cluster",
            id="a pod like no other",
        ),
        pytest.param(
            "",
            ["--cluster", "cluster.yaml", "--pod", "extra.yaml"],
            "extra.yaml: expected one Pod or one workload that makes pods, found no objects at all",
            id="a pod file without a pod",
        ),
        pytest.param(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "profiles: [{plugins: {filter: {enabled: [{name: NodeAfinity}]}}}]",
            ["--cluster", "cluster.yaml", "--pod", "small.yaml", "--config", "extra.yaml"],
            "initializing profiles: creating profile for scheduler name default-scheduler: "
            'FilterPlugin "NodeAfinity" does not exist; did you mean NodeAffinity?',
            id="a plugin that does not exist",
        ),
        pytest.param(
            "",
            ["--cluster", "cluster.yaml", "--pod", "small.yaml", "--plugin", "gone.py"],
            "plugin gone.py: there is no file gone.py",
            id="a plugin file that does not exist",
        ),
        pytest.param(
            "",
            ["--cluster", "gone.yaml", "--pod", "small.yaml"],
            "gone.yaml: no such file or directory",
            id="a dump that does not exist",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    files: Path, capsys: pytest.CaptureFixture[str], extra: str, args: list[str], line: str
) -> None:
    (files / "extra.yaml").write_text(extra)
    assert run(["explain", *args]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"mooring: {line}"


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--help"]) == 0
    assert "mooring explain --cluster dump.json --pod web.yaml" in capsys.readouterr().out


def test_the_shell_and_python_answer_alike_for_the_pod_of_another_scheduler(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "volcano.yaml").write_text((POD % "500m").replace("spec:", "spec:\n  schedulerName: volcano"))
    assert run(["explain", "--cluster", "cluster.yaml", "--pod", "volcano.yaml", "-o", "json"]) == 0
    shown = capsys.readouterr()
    note = "default/web is for volcano; explained as default-scheduler would decide"
    assert shown.err == f"mooring: {note} (see --config)\n"
    with pytest.warns(OtherScheduler, match=note):
        found = mooring.explain(mooring.load("cluster.yaml"), "volcano.yaml")
    assert found.to_dict() == json.loads(shown.out)
    assert found.scheduler_name == "default-scheduler"


def test_with_a_configuration_the_pod_of_another_scheduler_is_a_mistake(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "volcano.yaml").write_text((POD % "500m").replace("spec:", "spec:\n  schedulerName: volcano"))
    (files / "config.yaml").write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    asked = ["--cluster", "cluster.yaml", "--pod", "volcano.yaml", "--config", "config.yaml"]
    assert run(["explain", *asked]) == 2
    with pytest.raises(InputError) as raised:
        mooring.explain(mooring.load("cluster.yaml"), "volcano.yaml", "config.yaml")
    assert capsys.readouterr().err.splitlines()[-1] == f"mooring: {raised.value}"
    assert "spec.schedulerName: no profile for 'volcano'" in str(raised.value)
