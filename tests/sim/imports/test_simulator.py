"""Exports and records of kube-scheduler-simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mooring.api import yaml
from mooring.api.core import Node, Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object
from mooring.core.config.load import config_from_dict
from mooring.sim.imports.read import import_files
from mooring.sim.library import find
from mooring.sim.simulate import run_scenario


def node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def pod(name: str, node: str = "", phase: str = "Pending", uid: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": uid or f"uid-{name}", "resourceVersion": "7"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})},
        "status": {"phase": phase},
    }


def gone(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def line(second: float, event: str, resource: Any) -> str:
    whole = int(second)
    time = f"2026-01-31T12:{whole // 60:02}:{whole % 60:02}.{int(second % 1 * 1e9):09}+01:00"
    return json.dumps({"time": time, "event": event, "resource": resource})


def imported(folder: Path, *lines: str) -> Any:
    path = folder / "record.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return import_files([path])


# ---- records -------------------------------------------------------------------------------------------------------


def test_the_first_moment_is_the_cluster_at_the_start(tmp_path: Path) -> None:
    found = imported(tmp_path, line(0, "Add", node("a")), line(1.5, "Add", pod("old", "a", "Running")))
    assert [type(obj) for obj in found.objects] == [Node, Pod]
    assert found.arrivals == [] and found.changes == []
    assert found.format == "kube-scheduler-simulator record"
    assert found.started_at == pytest.approx(1769857200.0)


def test_a_pod_arrives_unbound_and_the_recorded_binding_is_named(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        line(0, "Add", node("a")),
        line(20, "Add", pod("web")),
        line(22, "Update", pod("web", "a", "Running")),
        line(52, "Update", pod("web", "a", "Succeeded")),
        line(60, "Delete", gone("Pod", "web", "shop")),
    )
    (arrival,) = found.arrivals
    assert (arrival.at_s, arrival.pod.key, arrival.pod.spec.node_name, arrival.run_s) == (20, "shop/web", "", 30)
    assert found.changes == []
    assert any(each.startswith("1 × binding that the recorded scheduler made") for each in found.not_simulated)


def test_a_pod_that_is_deleted_before_it_ends_goes_at_that_time(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        line(0, "Add", node("a")),
        line(20, "Add", pod("web")),
        line(22, "Update", pod("web", "a", "Running")),
        line(60, "Delete", gone("Pod", "web", "shop")),
    )
    assert found.arrivals[0].run_s is None
    (change,) = found.changes
    assert isinstance(change.obj, Object)
    assert (change.at_s, change.obj.key, change.is_gone) == (60, "shop/web", True)


def test_a_recreated_pod_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        line(0, "Add", node("a")),
        line(20, "Add", pod("web-0", uid="one")),
        line(30, "Delete", gone("Pod", "web-0", "shop")),
        line(31, "Add", pod("web-0", uid="two")),
    )
    assert [(each.at_s, each.pod.uid) for each in found.arrivals] == [(20, "one"), (31, "two")]
    assert [(each.at_s, each.is_gone) for each in found.changes] == [(30, True)]


def test_a_pod_is_recreated_even_if_its_predecessor_is_pending(tmp_path: Path) -> None:
    """In the record the first one had run and was gone; in the simulation another pod takes its place meanwhile."""
    lines = [line(0, "Add", node("a"))]
    for at, uid in ((20, "one"), (60, "two")):
        big = pod("web-0", uid=uid)
        big["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        bound = {**big, "spec": {**big["spec"], "nodeName": "a"}}
        lines += [line(at, "Add", big), line(at + 1, "Update", bound)]
        lines.append(line(at + 11, "Update", {**bound, "status": {"phase": "Succeeded"}}))
        lines.append(line(at + 12, "Delete", gone("Pod", "web-0", "shop")))
    full = pod("batch")
    full["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    imported(tmp_path, lines[0], line(10, "Add", full), *lines[1:])
    result = run_scenario(find(str(tmp_path / "record.jsonl")))
    assert result.failure == "" and result.arrived == 3
    assert list(result.pending) == ["shop/web-0"]


def test_whom_the_recorded_scheduler_evicted_is_left_out(tmp_path: Path) -> None:
    victim = pod("batch", "a", "Running")
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim["status"]["conditions"] = [target]
    found = imported(
        tmp_path,
        line(0, "Add", node("a")),
        line(20, "Add", pod("batch")),
        line(21, "Update", pod("batch", "a", "Running")),
        line(30, "Update", victim),
        line(59, "Update", {**victim, "status": {**victim["status"], "phase": "Failed"}}),
        line(60, "Delete", gone("Pod", "batch", "shop")),
    )
    assert found.changes == [] and [each.run_s for each in found.arrivals] == [None]
    assert "1 × end of a pod that was evicted by preemption: the simulation decides itself" in found.not_simulated


def test_another_pod_of_its_name_is_another_one_also_if_its_deletion_was_missed(tmp_path: Path) -> None:
    """A broken watch lists again: an object deleted and created meanwhile is reported as an update."""
    found = imported(
        tmp_path,
        line(0, "Add", node("a")),
        line(20, "Add", pod("web-0", uid="one")),
        line(30, "Update", pod("web-0", uid="two")),
    )
    assert [(each.at_s, each.pod.uid) for each in found.arrivals] == [(20, "one"), (30, "two")]
    assert [(each.at_s, each.is_gone) for each in found.changes] == [(30, True)]


def test_a_pod_whose_gate_is_removed_changes_at_that_time(tmp_path: Path) -> None:
    gated, waiting, bound = pod("web"), pod("web"), pod("web", "a")
    gated["spec"]["schedulingGates"] = [{"name": "quota"}]
    waiting["metadata"]["resourceVersion"] = bound["metadata"]["resourceVersion"] = "8"
    found = imported(
        tmp_path,
        line(0, "Add", node("a")),
        line(20, "Add", gated),
        line(50, "Update", waiting),
        line(51, "Update", bound),
    )
    (change,) = found.changes
    assert (change.at_s, change.came_as, change.is_gone) == (50, found.arrivals[0].pod, False)
    result = run_scenario(find(str(tmp_path / "record.jsonl")), keeps_placements=True)
    assert result.placements is not None
    assert {key: (each.node, each.at_s) for key, each in result.placements.items()} == {"shop/web": ("a", 50)}


def test_lines_as_the_recorder_writes_them(tmp_path: Path) -> None:
    """Go leaves out zeros at the end of a second, escapes angle brackets, and names the empty namespace of a node."""
    lines = [
        '{"time":"2025-04-28T16:45:26.12345678+09:00","event":"Add","resource":'
        '{"apiVersion":"v1","kind":"Node","metadata":{"annotations":{"a":"\\u003cnone\\u003e"},"name":"a"},'
        '"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}}}',
        '{"time":"2025-04-28T16:45:56+09:00","event":"Add","resource":'
        '{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}}}',
        '{"time":"2025-04-28T07:46:26.5Z","event":"Delete","resource":'
        '{"apiVersion":"v1","kind":"Node","metadata":{"name":"b","namespace":""}}}',
    ]
    found = imported(tmp_path, *lines)
    (first,) = found.objects
    assert first.metadata.annotations == {"a": "<none>"}
    assert [(round(each.at_s, 6), each.obj.name, each.is_gone) for each in found.changes] == [
        (29.876544, "b", False),
        (60.376544, "b", True),
    ]


def test_nodes_that_come_change_and_go_later_are_changes_and_heartbeats_are_not(tmp_path: Path) -> None:
    beating = node("a")
    beating["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "now"}]
    found = imported(
        tmp_path,
        line(0, "Add", node("a")),
        line(10, "Update", beating),
        line(20, "Update", node("a", disk="ssd")),
        line(30, "Add", node("b")),
        line(40, "Delete", gone("Node", "b")),
    )
    assert [(each.at_s, each.obj.name, each.is_gone) for each in found.changes] == [
        (20, "a", False),
        (30, "b", False),
        (40, "b", True),
    ]
    assert "1 × Update of a Node that changes nothing that scheduling reads" in found.not_simulated


def test_a_silent_node_takes_no_pods_until_it_is_back(tmp_path: Path) -> None:
    silent, back = node("a"), node("a")
    silent["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    silent["spec"] = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}
    back["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    lines = [line(0, "Add", node("a")), line(20, "Update", silent), line(60, "Add", pod("web"))]
    found = imported(tmp_path, *lines, line(120, "Update", back))
    assert [each.at_s for each in found.changes] == [20, 120]
    result = run_scenario(find(str(tmp_path / "record.jsonl")), keeps_placements=True)
    assert result.placements is not None
    assert 120 <= result.placements["shop/web"].at_s < 130


def test_what_the_recorded_cluster_did_to_bind_volumes_is_left_out(tmp_path: Path) -> None:
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}

    def volume(name: str, claim: str = "") -> dict[str, Any]:
        spec = {**modes, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}}
        reference = {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": claim}
        return {**gone("PersistentVolume", name), "spec": {**spec, **({"claimRef": reference} if claim else {})}}

    def claim(volume: str = "") -> dict[str, Any]:
        spec = {**modes, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume}
        return {**gone("PersistentVolumeClaim", "data", "shop"), "spec": spec}

    waiting = pod("db")
    waiting["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    lines = [line(0, "Add", each) for each in (node("a"), volume("one"), volume("two"))]
    lines += [line(20, "Add", claim()), line(21, "Add", waiting)]
    lines += [line(22, "Update", volume("two", "data")), line(22, "Update", claim("two"))]  # here it may be the other
    lines += [line(30, "Add", volume("made", "other")), line(40, "Delete", gone("PersistentVolume", "made"))]
    found = imported(tmp_path, *lines)
    assert [(each.at_s, each.obj.name) for each in found.changes] == [(20, "data")]
    assert found.not_simulated == [
        "1 × Update of a PersistentVolume in the course of binding: the simulation does it itself",
        "1 × Update of a PersistentVolumeClaim in the course of binding: the simulation does it itself",
        "1 × PersistentVolume that the recorded cluster made for a pod: the simulation makes its own",
        "1 × Delete of a PersistentVolume that the recorded cluster made for a pod",
    ]
    assert run_scenario(find(str(tmp_path / "record.jsonl"))).placed == 1


def test_kinds_that_scheduling_does_not_read_are_named(tmp_path: Path) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"secret": "s"}}
    found = imported(tmp_path, line(0, "Add", node("a")), line(0, "Add", config_map))
    assert found.not_simulated == ["1 × ConfigMap: scheduling does not read it"]


def test_a_record_whose_last_line_was_cut_off_is_read_up_to_it(tmp_path: Path) -> None:
    """A recorder that is killed may leave half a line."""
    path = tmp_path / "record.jsonl"
    whole = line(0, "Add", node("a"))
    path.write_text(f"{whole}\n{line(9, 'Add', node('b'))[:80]}")
    found = import_files([path])
    assert found.summary() == "1 node" and found.not_simulated == ["1 × last line: it was cut off"]
    path.write_text(f"{whole}\n{line(9, 'Add', node('b'))}")
    assert import_files([path]).summary() == "1 node, 1 change"


def test_two_watches_may_write_a_little_out_of_order(tmp_path: Path) -> None:
    found = imported(tmp_path, line(0.5, "Add", node("a")), line(0.4, "Add", node("b")))
    assert len(found.objects) == 2


@pytest.mark.parametrize(
    ("second", "want"),
    [
        pytest.param(line(0, "Add", node("b")), "line 2: time 2026-01-31T12:00:00.000000000+01:00 is 10.000s before",
                     id="times go back"),
        pytest.param('{"time": "noon", "event": "Add", "resource": {}}', "line 2: time: 'noon' is not a timestamp",
                     id="no timestamp"),
        pytest.param('{"event": "Add", "resource": {}}', "line 2: no 'time'; expected", id="no time"),
        pytest.param(line(11, "Sync", node("b")), "event: 'Sync', expected Add, Update, Delete", id="no such event"),
        pytest.param(line(11, "Add", {"kind": "Node"}), "line 2: resource: Node without a name: metadata.name",
                     id="an object without a name"),
        pytest.param(line(11, "Add", "x"), "line 2: resource: the text 'x', expected a Kubernetes object", id="text"),
        pytest.param(line(11, "Add", node("b"))[:50], "line 2: column", id="a line that was cut"),
        pytest.param("[1]", "line 2: list, expected an object with time", id="a list"),
        pytest.param('{"time": "\\ud800"}', "line 2: nested too deeply, or half a character", id="half a character"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_record_is_reported_with_its_line(tmp_path: Path, second: str, want: str) -> None:
    with pytest.raises(InputError) as caught:
        imported(tmp_path, line(10, "Add", node("a")), second)
    assert want in str(caught.value) and "\n" not in str(caught.value)


# ---- exports -------------------------------------------------------------------------------------------------------


def without_kind(value: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key not in ("kind", "apiVersion")}


def test_an_export_is_a_cluster_and_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    config = {"kind": "KubeSchedulerConfiguration", "apiVersion": "kubescheduler.config.k8s.io/v1"}
    path.write_text(json.dumps({
        "nodes": [without_kind(node("a"))],
        "pods": [without_kind(pod("web", "a")), without_kind(pod("new"))],
        "pvs": None,
        "priorityClasses": [{"metadata": {"name": "high"}, "value": 10}],
        "schedulerConfig": config,
        "extra": 1,
    }))  # fmt: skip
    found = import_files([path])
    assert sorted(type(obj).__name__ for obj in found.objects) == ["Node", "Pod", "Pod", "PriorityClass"]
    assert found.config == config
    assert found.not_simulated == ["extra: a field that exports of kube-scheduler-simulator do not have"]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param({"nodes": {}}, "nodes: dict, expected a list", id="no list"),
        pytest.param({"nodes": [1]}, "nodes[0]: int, expected an object", id="no object"),
        pytest.param({"nodes": [{}]}, "nodes[0]: Node without a name: metadata.name: is missing", id="no name"),
        pytest.param({"nodes": [node("a"), node("a")]}, "nodes[1]: Node a is already in", id="a node twice"),
        pytest.param({"pods": [], "schedulerConfig": 3}, "schedulerConfig: int, expected a KubeSchedulerConfiguration",
                     id="no configuration"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_export_is_reported_with_its_place(tmp_path: Path, value: Any, want: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(value))
    with pytest.raises(InputError) as caught:
        import_files([path])
    assert str(caught.value).startswith(f"{path}: ") and want in str(caught.value)


def test_a_configuration_that_is_none_is_refused_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"nodes": [node("a")], "pods": [], "schedulerConfig": {"kind": "Nope"}}))
    with pytest.raises(InputError, match=r'export.json: schedulerConfig: no kind "Nope" is registered'):
        import_files([path])


GROUP = "kubescheduler.config.k8s.io"


def config_of(version: str, fields: Mapping[str, Any] | None = None, *, says_version: bool = True) -> dict[str, Any]:
    """A configuration as the simulator writes it: with its defaults, and the version in all arguments."""
    at_points = {
        "filter": {"enabled": [{"name": "NodeName"}, {"name": "EBSLimits"}, {"name": "GCEPDLimits"}]},
        "score": {"enabled": [{"name": name, "weight": 1} for name in ("TaintToleration", "NodeAffinity")]
                  + [{"name": "InterPodAffinity", "weight": 1}]},
        "permit": {},
    }  # fmt: skip
    args = {"kind": "InterPodAffinityArgs", "apiVersion": f"{GROUP}/{version}", "hardPodAffinityWeight": 1}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": at_points,
        "pluginConfig": [{"name": "InterPodAffinity", "args": args}],
    }
    said = {"kind": "KubeSchedulerConfiguration", "apiVersion": f"{GROUP}/{version}"} if says_version else {}
    return {**said, "parallelism": 16, "profiles": [profile], **(fields or {})}


ADDRESSES = {"healthzBindAddress": "0.0.0.0:10251", "metricsBindAddress": "0.0.0.0:10251"}


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(config_of("v1beta2", ADDRESSES, says_version=False), id="of 2022, which does not say its version"),
        pytest.param(config_of("v1beta2", ADDRESSES), id="of v1beta2"),
        pytest.param(config_of("v1"), id="of v1 with plugins that it lost later"),
    ],
)
def test_an_older_configuration_becomes_one_of_today_and_what_is_gone_is_named(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"pods": [], "nodes": [without_kind(node("a"))], "schedulerConfig": config}))
    found = import_files([path])
    read = config_from_dict(found.config)
    (profile,) = read.profiles
    plugins = profile.plugins
    assert [each.name for each in plugins.filter.enabled] == ["NodeName"]
    assert [each.weight for each in plugins.score.enabled] == [1, 1, 1]
    lost = [each.partition(": ")[0] for each in found.not_simulated]
    at = "schedulerConfig.profiles[0].plugins.filter.enabled"
    assert lost == [*(f"schedulerConfig.{name}" for name in ADDRESSES if name in config), f"{at}[1]", f"{at}[2]"]


def test_the_page_of_the_simulator_saves_its_export_as_yaml(tmp_path: Path) -> None:
    path = tmp_path / "export.yml"
    export = {"pods": [], "nodes": [without_kind(node("a"))], "pvs": [], "schedulerConfig": config_of("v1")}
    path.write_text(yaml.dump(export, sort_keys=False))
    found = import_files([path])
    assert found.format == "kube-scheduler-simulator export" and found.summary() == "1 node"
    assert find(str(path)).config == found.config


def test_a_list_that_an_export_has_twice_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "export.yml"
    path.write_text("nodes:\n- metadata: {name: a}\nnodes: []\n")
    with pytest.raises(InputError, match=r'export.yml: line 3: .*"nodes"'):
        import_files([path])


def test_results_of_the_simulator_and_pods_that_have_ended_are_named(tmp_path: Path) -> None:
    decided, ended = pod("web", "a"), pod("done", "a", "Succeeded")
    decided["metadata"]["annotations"] = {"kube-scheduler-simulator.sigs.k8s.io/filter-result": "{}"}
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"nodes": [node("a")], "pods": [decided, ended], "schedulerConfig": None}))
    found = import_files([path])
    assert found.config is None and found.summary() == "1 node, 1 pod"
    assert found.not_simulated == [
        "1 × Pod that has ended: scheduling does not see it",
        "1 × Pod with results of the exported scheduler (kube-scheduler-simulator.sigs.k8s.io/…): "
        "the simulation decides itself",
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(
            {"nodes": None, "pods": []}, "nothing to simulate; expected nodes, pods or workloads", id="export"
        ),
        pytest.param(
            {"kind": "Status", "apiVersion": "v1", "message": "forbidden"},
            "expected nodes, pods or workloads; found 1 × Status: scheduling does not read it",
            id="an error that kubectl printed",
        ),
    ],
)
def test_a_file_with_nothing_in_it_is_refused(tmp_path: Path, content: dict[str, Any], says: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=says):
        import_files([path])


def test_a_record_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    lines = [
        {"time": time, "event": "Add", "resource": each}
        for time, each in (("2001-01-01T00:00:00Z", node("a")), ("2026-01-01T00:00:00Z", pod("p")))
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    with pytest.raises(InputError, match="25y from the first to the last; expected at most 10y"):
        import_files([path])
