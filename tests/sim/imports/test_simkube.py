"""SimKube traces, as MessagePack and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.sim.imports.read import import_files
from mooring.sim.imports.simkube import COMPLETES_AFTER

NOON = 1_769_860_800


def pod(name: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "testing"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "c"}], **spec}}


def deployment(replicas: int) -> dict[str, Any]:
    template = {"metadata": {"creationTimestamp": None}, "spec": {"containers": [{"name": "c"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "template": template},
    }


def event(at: Any, applied: Any = (), deleted: Any = ()) -> dict[str, Any]:
    return {"ts": at, "applied_objs": applied, "deleted_objs": deleted}


def trace(*events: Any, **more: Any) -> dict[str, Any]:
    return {
        "version": 2,
        "config": {"trackedObjects": {}},
        "events": list(events),
        "index": {},
        "pod_lifecycles": {},
    } | more


def imported(folder: Path, value: Any) -> Any:
    path = folder / "some.sktrace"
    path.write_bytes(msgspec.msgpack.encode(value))
    return import_files([path])


def test_pods_arrive_and_run_as_long_as_they_ran(tmp_path: Path) -> None:
    lives = {
        ("v1.Pod", "testing/one"): {17744887352825418200: [{"Finished": [NOON, NOON + 30]}]},
        ("v1.Pod", "testing/two"): {1: [{"Running": NOON + 9}]},
    }
    found = imported(
        tmp_path, trace(event(NOON, [pod("one")]), event(NOON + 9, [pod("two", nodeName="n")]), pod_lifecycles=lives)
    )
    assert [(each.at_s, each.pod.key, each.run_s, each.pod.spec.node_name) for each in found.arrivals] == [
        (0, "testing/one", 30, ""),
        (9, "testing/two", None, ""),
    ]
    assert found.started_at == NOON
    assert found.not_simulated == [
        "1 × node of a Pod: the simulation decides itself",
        "nodes: a trace has none; give a cluster beside it",
    ]


def test_workloads_are_changes_and_their_pods_get_the_median_run_time(tmp_path: Path) -> None:
    lives = {("apps/v1.Deployment", "shop/web"): {1: [{"Finished": [NOON, NOON + each]} for each in (10, 20, 90)]}}
    found = imported(
        tmp_path, trace(event(NOON, [deployment(1)]), event(NOON + 5, [deployment(3)]), pod_lifecycles=lives)
    )
    assert [(each.at_s, each.obj["spec"]["replicas"], each.is_gone) for each in found.changes] == [
        (0, 1, False),
        (5, 3, False),
    ]
    template = found.changes[0].obj["spec"]["template"]
    assert template["metadata"]["annotations"] == {COMPLETES_AFTER: "20s"}
    assert (
        "3 run times of Deployment shop/web, from 10s to 90s: its pods all get the median, 20s" in found.not_simulated
    )


def test_what_is_deleted_goes(tmp_path: Path) -> None:
    bare = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    found = imported(
        tmp_path, trace(event(NOON, [pod("one")]), event(NOON + 3, [], [pod("one"), bare, pod("unknown")]))
    )
    first, second = found.changes
    assert isinstance(first.obj, Pod) and first.obj is found.arrivals[0].pod and first.is_gone
    assert second.obj["metadata"]["name"] == "web" and second.is_gone
    assert "1 × deletion of a Pod that the trace does not have" in found.not_simulated


def test_pods_of_a_cron_job_come_when_they_came(tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "c"}]}}
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "backup", "namespace": "shop"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
    }
    lives = {("batch/v1.CronJob", "shop/backup"): {1: [{"Running": NOON + 70}, {"Finished": [NOON + 10, NOON + 15]}]}}
    found = imported(
        tmp_path,
        trace(
            event(NOON, [cron_job]), event(NOON + 5, [cron_job]), event(NOON + 99, [], [cron_job]), pod_lifecycles=lives
        ),
    )
    assert [(each.at_s, each.pod.key, each.run_s) for each in found.arrivals] == [
        (10, "shop/backup-1", 5),
        (70, "shop/backup-2", None),
    ]
    assert found.changes == []
    assert "schedule of CronJob shop/backup: its pods come when they came in the trace" in found.not_simulated


def test_pods_that_no_object_of_the_trace_makes_here_are_named(tmp_path: Path) -> None:
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train", "namespace": "ai"}}
    lives = {
        ("batch.volcano.sh/v1alpha1.Job", "ai/train"): {1: [{"Finished": [NOON, NOON + 9]}], 2: [{"Running": NOON}]},
        ("/v1.Pod", "testing/one"): {3: [{"Finished": [NOON, NOON + 30]}]},
    }
    found = imported(tmp_path, trace(event(NOON, [job, pod("one")]), pod_lifecycles=lives))
    assert [each.run_s for each in found.arrivals] == [30]  # an older tracer wrote the slash
    assert found.not_simulated == [
        "1 × Job: scheduling does not read it",
        "2 pods of batch.volcano.sh/v1alpha1.Job ai/train: no pods are made of such an object",
        "nodes: a trace has none; give a cluster beside it",
    ]


def test_json_is_read_too_with_pairs_as_texts(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    lives = {"(v1.Pod, testing/one)": {"1": [{"Finished": [1, 5]}]}}
    path.write_text(json.dumps(trace(event(NOON, [pod("one")]), pod_lifecycles=lives), indent=4))
    assert import_files([path]).arrivals[0].run_s == 4


def test_a_trace_and_its_cluster_make_one_import(tmp_path: Path) -> None:
    cluster, path = tmp_path / "nodes.yaml", tmp_path / "some.sktrace"
    cluster.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: 4}}\n")
    path.write_bytes(msgspec.msgpack.encode(trace(event(NOON, [pod("one")]))))
    found = import_files([path, cluster])
    assert found.summary() == "1 node, 1 pod that arrives"
    assert found.not_simulated == []


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param([1, {}], "a list, expected a SimKube trace", id="the format of version 1"),
        pytest.param(trace(version=3), "version: the number 3, expected 2", id="a newer version"),
        pytest.param({"version": 2}, "events: nothing, expected a list", id="no events"),
        pytest.param(trace(5), "events[0]: the number 5, expected a map of ts", id="an event that is none"),
        pytest.param(trace(event("x")), "events[0]: ts: the text 'x', expected seconds since 1970", id="no time"),
        pytest.param(trace(event(True)), "events[0]: ts: the number True, expected", id="a truth as a time"),
        pytest.param(trace(event(NOON), event(NOON - 1)), f"events[1]: ts {NOON - 1} is before {NOON}",
                     id="times go back"),
        pytest.param(trace(event(NOON, 5)), "events[0]: applied_objs: the number 5, expected a list", id="no list"),
        pytest.param(trace(event(NOON, [{}])), "events[0]: applied_objs[0]: an object without kind", id="no kind"),
        pytest.param(trace(pod_lifecycles={("v1.Pod", "a/b"): {1: [{"Finished": [9, 5]}]}}),
                     "end 5 is before start 9; a run time cannot be negative", id="a negative run time"),
        pytest.param(trace(pod_lifecycles={("v1.Pod", "a/b"): {1: ["Gone"]}}), "the text 'Gone', expected Empty",
                     id="an unknown life"),
        pytest.param(trace(pod_lifecycles={"web": {1: []}}), "expected a pair of kind", id="an owner without a kind"),
        pytest.param(trace(pod_lifecycles=[1]), "pod_lifecycles: a list, expected a map", id="lives in a list"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place(tmp_path: Path, value: Any, want: str) -> None:
    with pytest.raises(InputError) as caught:
        imported(tmp_path, value)
    assert str(caught.value).startswith(str(tmp_path)) and want in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_cut_are_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "some.sktrace"
    path.write_bytes(msgspec.msgpack.encode(trace(event(NOON, [pod("one")])))[:-7])
    with pytest.raises(InputError, match="expected MessagePack, as SimKube writes its traces"):
        import_files([path])
