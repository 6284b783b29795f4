"""Binding, eviction, scale, finalize, token: writes that are not plain updates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.controlplane.registry import subresources as sub
from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS
from mooring.controlplane.registry.groups.workloads import BUDGETS, DEPLOYMENTS, REPLICATION_CONTROLLERS
from mooring.controlplane.registry.verbs import Api, Options
from mooring.controlplane.storage.store import Store
from mooring.controlplane.types import patch
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import StatusError

LABELS = {"app": "web"}
POD_SPEC = {"containers": [{"name": "c", "image": "i"}]}


@pytest.fixture
def api() -> Api:
    api = Api(Store(), VirtualClock(1_767_225_600.0))
    api.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    api.create(NODES, "", {"metadata": {"name": "n"}})
    return api


def add_pod(api: Api, name: str = "p", *, phase: str = "Running", is_ready: bool = True, **spec: Any) -> None:
    api.create(PODS, "default", {"metadata": {"name": name, "labels": LABELS}, "spec": {**POD_SPEC, **spec}})
    conditions = [{"type": "Ready", "status": "True" if is_ready else "False"}]
    status = {"phase": phase, "conditions": conditions}
    api.modify(PODS, "default", name, lambda obj: obj["status"].update(status), subresource="status")


def body(obj: Any) -> bytes:
    return json.dumps(obj).encode()


def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(StatusError) as refused:
        call()
    return refused.value.code, str(refused.value)


# Binding


@pytest.mark.parametrize(
    ("binding", "code", "want"),
    [
        pytest.param({}, 422, "target.name: Required", id="nowhere"),
        pytest.param({"target": {"kind": "Pod", "name": "n"}}, 422, "target.kind: Unsupported", id="to a pod"),
        pytest.param(
            {"metadata": {"name": "q"}, "target": {"name": "n"}},
            400,
            "does not match name in Binding",
            id="another pod",
        ),
        pytest.param({"target": "n"}, 400, "cannot unmarshal string", id="a text"),
        pytest.param(
            {"metadata": {"uid": "other"}, "target": {"name": "n"}}, 409, "UID in precondition", id="a namesake"
        ),
    ],
)
def test_bindings_that_are_refused(api: Api, binding: Object, code: int, want: str) -> None:
    add_pod(api)
    got, message = refusal(lambda: sub.bind(api, "default", "p", body(binding), Options()))
    assert got == code and want in message


def test_a_binding_carries_labels_and_annotations(api: Api) -> None:
    add_pod(api)
    binding = {"metadata": {"annotations": {"a": "1"}, "labels": {"b": "2"}}, "target": {"name": "n"}}
    assert sub.bind(api, "default", "p", body(binding), Options())["code"] == 201
    metadata = api.get(PODS, "default", "p").object()["metadata"]
    assert metadata["annotations"] == {"a": "1"} and metadata["labels"] == {**LABELS, "b": "2"}


def test_a_dry_binding_places_nothing(api: Api) -> None:
    add_pod(api)
    sub.bind(api, "default", "p", body({"target": {"name": "n"}}), Options(dry_run=True))
    assert "nodeName" not in api.get(PODS, "default", "p").object()["spec"]


def test_a_binding_turns_the_condition_and_keeps_its_time_if_it_held(api: Api) -> None:
    add_pod(api)
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}
    api.modify(PODS, "default", "p", lambda obj: obj["status"].update(conditions=[waiting]), subresource="status")
    sub.bind_pod(api, "default", "p", "n")
    (condition,) = api.get(PODS, "default", "p").object()["status"]["conditions"]
    assert condition == {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_a_pod_that_is_going_is_not_bound(api: Api) -> None:
    api.create(PODS, "default", {"metadata": {"name": "p", "finalizers": ["a/b"]}, "spec": POD_SPEC})
    api.delete(PODS, "default", "p")
    code, message = refusal(lambda: sub.bind_pod(api, "default", "p", "n"))
    assert code == 409 and "is being deleted" in message


# Eviction


def budget(api: Api, name: str = "b", *, observed: int = 1, policy: str = "", **status: int) -> None:
    spec: Object = {"selector": {"matchLabels": LABELS}, "minAvailable": 1}
    if policy:
        spec["unhealthyPodEvictionPolicy"] = policy
    api.create(BUDGETS, "default", {"metadata": {"name": name}, "spec": spec})
    full = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1, **status}
    change = {**full, "observedGeneration": observed}
    api.modify(BUDGETS, "default", name, lambda obj: obj.update(status=change), subresource="status")


def evict(api: Api, **eviction: Any) -> Object:
    return sub.evict(api, "default", "p", body(eviction) if eviction else b"", Options())


def test_an_eviction_without_budget_deletes_and_says_why(api: Api) -> None:
    add_pod(api, nodeName="n")
    assert evict(api)["code"] == 201
    pod = api.get(PODS, "default", "p").object()
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert [(c["type"], c["reason"]) for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget"] == [
        ("DisruptionTarget", "EvictionByEvictionAPI")
    ]


def test_an_eviction_passes_delete_options_on(api: Api) -> None:
    add_pod(api, nodeName="n")
    evict(api, deleteOptions={"gracePeriodSeconds": 3})
    assert api.get(PODS, "default", "p").object()["metadata"]["deletionGracePeriodSeconds"] == 3


def test_an_eviction_takes_one_disruption_out_of_the_budget(api: Api) -> None:
    add_pod(api, nodeName="n")
    budget(api, disruptionsAllowed=2, currentHealthy=3)
    evict(api)
    status = api.get(BUDGETS, "default", "b").object()["status"]
    assert status["disruptionsAllowed"] == 1 and list(status["disruptedPods"]) == ["p"]


@pytest.mark.parametrize(
    ("pod", "setup", "code"),
    [
        pytest.param({}, {"disruptionsAllowed": 0}, 429, id="no disruption left"),
        pytest.param({}, {"disruptionsAllowed": 1, "observed": 0}, 429, id="a budget without a status"),
        pytest.param({"phase": "Pending"}, {}, 0, id="a pending pod disrupts nothing"),
        pytest.param({"phase": "Succeeded"}, {}, 0, id="nor does one that has ended"),
        pytest.param({"is_ready": False}, {}, 429, id="a sick pod of a budget that is short"),
        pytest.param({"is_ready": False}, {"currentHealthy": 1}, 0, id="a sick pod of a budget that is not"),
        pytest.param({"is_ready": False}, {"policy": "AlwaysAllow"}, 0, id="a sick pod may always go"),
    ],
)
def test_who_may_be_evicted(api: Api, pod: Object, setup: Any, code: int) -> None:
    add_pod(api, **pod)
    budget(api, **setup)
    if code:
        with pytest.raises(StatusError, match="would violate the pod's disruption budget") as refused:
            evict(api)
        assert refused.value.code == code
        assert refused.value.details["causes"][0]["reason"] == "DisruptionBudget"
        assert api.find(PODS, "default", "p") is not None
    else:
        evict(api)
        assert api.find(PODS, "default", "p") is None


def test_a_budget_of_others_does_not_count(api: Api) -> None:
    add_pod(api)
    api.create(BUDGETS, "default", {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "db"}}}})
    assert evict(api)["code"] == 201


def test_two_budgets_are_more_than_an_eviction_understands(api: Api) -> None:
    add_pod(api)
    budget(api, "a", disruptionsAllowed=1)
    budget(api, "b", disruptionsAllowed=1)
    code, message = refusal(lambda: evict(api))
    assert code == 500 and "more than one PodDisruptionBudget" in message


def test_a_dry_eviction_takes_nothing(api: Api) -> None:
    add_pod(api)
    budget(api, disruptionsAllowed=1, currentHealthy=2)
    sub.evict(api, "default", "p", b"", Options(dry_run=True))
    assert api.get(BUDGETS, "default", "b").object()["status"]["disruptionsAllowed"] == 1
    assert api.find(PODS, "default", "p") is not None


def test_an_eviction_of_another_pod(api: Api) -> None:
    add_pod(api)
    assert refusal(lambda: evict(api, metadata={"name": "q"}))[0] == 400


# Scale


@pytest.fixture
def scaled(api: Api) -> Api:
    template = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
    spec = {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template}
    api.create(DEPLOYMENTS, "default", {"metadata": {"name": "d"}, "spec": spec})
    return api


def test_the_scale_of_a_workload(scaled: Api) -> None:
    shown = sub.scale_of(scaled.get(DEPLOYMENTS, "default", "d").object())
    assert (shown["kind"], shown["spec"], shown["status"]) == (
        "Scale",
        {"replicas": 3},
        {"replicas": 0, "selector": "app=web"},
    )
    assert shown["metadata"].keys() == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}


def test_the_scale_of_a_replication_controller(api: Api) -> None:
    template = {"metadata": {"labels": {"b": "2", "a": "1"}}, "spec": POD_SPEC}
    api.create(REPLICATION_CONTROLLERS, "default", {"metadata": {"name": "r"}, "spec": {"template": template}})
    shown = sub.scale_of(api.get(REPLICATION_CONTROLLERS, "default", "r").object())
    assert shown["status"]["selector"] == "a=1,b=2"


def test_a_scale_of_zero_says_nothing() -> None:
    assert sub.scale_of({"metadata": {"name": "x"}, "spec": {"replicas": 0}})["spec"] == {}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (patch.MERGE, {"spec": {"replicas": 5}}),
        (patch.STRATEGIC, {"spec": {"replicas": 5}}),
        (patch.JSON, [{"op": "replace", "path": "/spec/replicas", "value": 5}]),
        (patch.APPLY, {"spec": {"replicas": 5}}),
    ],
)
def test_patching_a_scale(scaled: Api, kind: str, change: Any) -> None:
    shown = sub.patch_scale(scaled, DEPLOYMENTS, "default", "d", kind, body(change), Options())
    assert shown["spec"] == {"replicas": 5}
    assert scaled.get(DEPLOYMENTS, "default", "d").object()["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    ("scale", "code", "want"),
    [
        ({"spec": {"replicas": -1}}, 422, "must be greater than or equal to 0"),
        ({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 1}}, 409, "has been modified"),
    ],
    ids=["below zero", "a stale version"],
)
def test_scales_that_are_refused(scaled: Api, scale: Object, code: int, want: str) -> None:
    got, message = refusal(lambda: sub.set_scale(scaled, DEPLOYMENTS, "default", "d", scale, Options()))
    assert got == code and want in message


# Namespaces and tokens


def test_finalizing_lets_a_namespace_go(api: Api) -> None:
    api.create(NAMESPACES, "", {"metadata": {"name": "team"}})
    api.delete(NAMESPACES, "", "team")
    assert api.find(NAMESPACES, "", "team") is not None
    sub.finalize(api, "team", {"metadata": {}, "spec": {"finalizers": []}}, Options())
    assert api.find(NAMESPACES, "", "team") is None


def test_finalizing_a_namespace_that_stays_only_sets_its_finalizers(api: Api) -> None:
    sub.finalize(api, "default", {"metadata": {}, "spec": {"finalizers": ["a/b"]}}, Options())
    assert api.get(NAMESPACES, "", "default").object()["spec"] == {"finalizers": ["a/b"]}
    stale = {"metadata": {"resourceVersion": "1"}, "spec": {}}
    assert refusal(lambda: sub.finalize(api, "default", stale, Options()))[0] == 409


@pytest.mark.parametrize(
    ("asked", "lasts_s"), [({}, 3600), ({"expirationSeconds": 5}, 600), ({"expirationSeconds": 2**62}, 2**31)]
)
def test_a_token_request(api: Api, asked: Object, lasts_s: int) -> None:
    answer = sub.request_token(api, "default", "robot", body({"spec": asked}), "secret")
    assert answer["status"]["token"] == "secret"
    expected = {3600: "2026-01-01T01:00:00Z", 600: "2026-01-01T00:10:00Z", 2**31: "2094-01-19T03:14:08Z"}
    assert answer["status"]["expirationTimestamp"] == expected[lasts_s]
