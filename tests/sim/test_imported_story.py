"""Imports are played: the cluster is made, pods arrive and end, objects change and go at their times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import InputError
from mooring.sim.imports.read import import_all
from mooring.sim.library import find
from mooring.sim.scenario_file import scenario_of
from mooring.sim.simulate import run_scenario

NODES = "sn,cpu_milli,memory_mib,gpu,model\nbig,4000,8192,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "first,3000,10,0,0,,,,100,160,100\n"
    "second,3000,10,0,0,,,,110,120,110\n"
)


def story(folder: Path, *names: str, more: tuple[Any, ...] = ()) -> Path:
    path = folder / "story.yaml"
    path.write_text(json.dumps({"steps": [{"import": list(names)}, *more, {"advance": "end"}]}))
    return path


def placed(path: Path, **options: Any) -> dict[str, tuple[str, float]]:
    result = run_scenario(find(str(path)), keeps_placements=True, **options)
    assert result.failure == "" and result.placements is not None
    return {key.partition("/")[2]: (each.node, round(each.at_s, 3)) for key, each in result.placements.items()}


def node(name: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str, node: str = "", phase: str = "Pending") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def line(second: int, event: str, resource: dict[str, Any]) -> str:
    time = f"2026-01-31T12:{second // 60:02}:{second % 60:02}Z"
    return json.dumps({"time": time, "event": event, "resource": resource})


def test_pods_of_a_table_wait_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    assert placed(story(tmp_path, "nodes.csv", "pods.csv")) == {"first": ("big", 0), "second": ("big", 60)}


def test_the_story_continues_while_pods_arrive(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    more = ({"advance": "30s"}, {"nodes": {"count": 1, "name": "more", "cpu": "4"}})
    assert placed(story(tmp_path, "nodes.csv", "pods.csv", more=more))["second"] == ("more", pytest.approx(30, abs=1.1))


def test_a_record_of_the_simulator_is_played_at_its_times(tmp_path: Path) -> None:
    gone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old", "namespace": "shop"}}
    lines = [
        line(0, "Add", node("a")),
        line(0, "Add", pod("old", "3", "a", "Running")),
        line(20, "Add", pod("web", "2")),
        line(25, "Update", pod("web", "2", "elsewhere", "Running")),
        line(60, "Delete", gone),
        line(90, "Add", pod("next", "4")),
        line(100, "Add", node("b")),
    ]
    path = tmp_path / "record.jsonl"
    path.write_text("\n".join(lines) + "\n")
    found = placed(path)  # a file of another tool is a story by itself
    assert found["web"] == ("a", 60)
    assert found["next"][0] == "b" and found["next"][1] == pytest.approx(100, abs=1.1)


def test_workloads_of_a_trace_are_made_and_scaled(tmp_path: Path) -> None:
    def deployment(replicas: int) -> dict[str, Any]:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        meta = {"name": "web", "namespace": "shop", "uid": "u", "creationTimestamp": None}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec, "status": {"x": 1}}

    events = [
        {"ts": 1000, "applied_objs": [deployment(1)], "deleted_objs": []},
        {"ts": 1060, "applied_objs": [deployment(3)], "deleted_objs": []},
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"version": 2, "events": events, "pod_lifecycles": {}}))
    (tmp_path / "nodes.json").write_text(json.dumps(node("a")))
    times = sorted(at_s for _, at_s in placed(story(tmp_path, "trace.json", "nodes.json")).values())
    assert times == pytest.approx([0, 60, 60], abs=0.5)


def test_a_cluster_with_bound_pods_and_their_workloads_is_unchanged(tmp_path: Path) -> None:
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}]
    running = pod("web-1", "3", "a", "Running")
    running["metadata"]["ownerReferences"] = owner
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": spec,
                   "metadata": {"name": "web", "namespace": "shop", "uid": "r"}}  # fmt: skip
    items = [node("a"), running, replica_set, pod("new", "1"), pod("large", "2")]
    (tmp_path / "dump.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    result = run_scenario(find(str(story(tmp_path, "dump.json"))), keeps_placements=True)
    assert result.placements is not None and list(result.placements) == ["shop/new"]
    assert list(result.pending) == ["shop/large"]


def test_a_mistake_names_the_step_and_the_place(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,-1,1,0,\n")
    with pytest.raises(InputError, match=r"story.yaml: steps\[0\]: .*nodes.csv, line 2: cpu_milli: a negative number"):
        find(str(story(tmp_path, "nodes.csv")))


def test_a_name_that_is_taken_while_it_runs_is_a_failure_that_says_when(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "one.csv").write_text(PODS)
    result = run_scenario(find(str(story(tmp_path, "nodes.csv", "one.csv", more=({"import": "one.csv"},)))))
    assert "0s after the start of the import: pod default/first already exists" in result.failure


def test_an_object_loses_what_its_change_does_not_say(tmp_path: Path) -> None:
    cordoned = {**node("a"), "spec": {"unschedulable": True}}
    lines = [line(0, "Add", cordoned), line(10, "Add", pod("web", "2")), line(40, "Update", node("a"))]
    (tmp_path / "record.jsonl").write_text("\n".join(lines))
    assert placed(story(tmp_path, "record.jsonl"))["web"] == ("a", pytest.approx(40, abs=1.1))


def test_volumes_stay_bound_to_their_claims(tmp_path: Path) -> None:
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "d", "volumeHandle": "h"},
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "before"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop", "uid": "before"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": "disk",
        },
        "status": {"phase": "Bound"},
    }
    wants = pod("web", "1")
    wants["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    items = [node("a"), volume, claim, wants]
    (tmp_path / "dump.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    more = ({"advance": "10s"}, {"expect": {"count": "persistentvolumes", "is": 1}})
    assert placed(story(tmp_path, "dump.json", more=more))["web"][0] == "a"


JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sums"}}
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}


def job(pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**JOB, "spec": {"template": {"spec": pod}, **spec}}


REFUSED_WORKLOADS = [
    pytest.param(
        job({**POD, "restartPolicy": "Always"}),
        'Job sums: spec.template.spec.restartPolicy: Unsupported value: "Always": supported values: ',
        id="a value that is not supported",
    ),
    pytest.param(
        job(POD, completions=-1),
        "Job sums: spec.completions: Invalid value: -1: must be greater",
        id="a number too small",
    ),
    pytest.param(
        job({**POD, "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "lots"}}}]}),
        "Job sums: spec.template.spec.containers[0].resources.requests[cpu]: 'lots' is not a quantity; write",
        id="a quantity",
    ),
    pytest.param(
        {**job(POD), "apiVersion": "batch/v2"},
        "Job sums: apiVersion: expected batch/v1, found batch/v2",
        id="a version that there is not",
    ),
    pytest.param({**JOB, "spec": {}}, "Job sums: spec.template.spec.containers: Required value", id="nothing to run"),
]


@pytest.mark.parametrize(("workload", "said"), REFUSED_WORKLOADS)
def test_a_workload_that_an_api_server_refuses_is_refused_when_it_is_imported(
    tmp_path: Path, workload: dict[str, Any], said: str
) -> None:
    path = tmp_path / "cluster.json"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, workload]}))
    with pytest.raises(InputError) as caught:
        import_all([str(path)])
    assert str(caught.value).startswith(f"{path}, items[1]: {said}")


@pytest.mark.parametrize("verb", ["apply", "create"])
@pytest.mark.parametrize(("workload", "said"), REFUSED_WORKLOADS)
def test_and_when_a_story_is_read_that_applies_it(verb: str, workload: dict[str, Any], said: str) -> None:
    story = {"steps": [{"nodes": {"count": 1}}, {verb: workload}]}
    with pytest.raises(InputError) as caught:
        scenario_of(story, source="story.yaml", folder=Path(), name="story")
    assert str(caught.value).startswith(f"story.yaml: steps[1]: {said}")


def test_a_workload_may_leave_its_name_to_the_server(tmp_path: Path) -> None:
    named = {**job(POD), "metadata": {"generateName": "sums-"}}
    scenario_of({"steps": [{"create": named}]}, source="story.yaml", folder=Path(), name="story")
