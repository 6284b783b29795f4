"""What a pod must say and what of it may change, field by field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mooring.controlplane.registry import pod_validation
from mooring.controlplane.registry.groups.pods import default_pod

BARE = {"name": "c", "image": "i"}


def wrong(**spec: Any) -> list[str]:
    """The fields of a pod spec that are wrong, after defaults."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [copy.deepcopy(BARE)], **copy.deepcopy(spec)}}
    default_pod(pod)
    found = pod_validation.validate_pod_spec(pod["spec"], "spec")
    return [f"{c.field.removeprefix('spec.')} {c.reason.removeprefix('FieldValue')}" for c in found]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, [], id="a bare pod"),
        pytest.param({"containers": []}, ["containers Required"], id="no containers"),
        pytest.param({"restartPolicy": "Often"}, ["restartPolicy NotSupported"], id="a restart policy"),
        pytest.param({"dnsPolicy": "Mine"}, ["dnsPolicy NotSupported"], id="a DNS policy"),
        pytest.param({"preemptionPolicy": "Always"}, ["preemptionPolicy NotSupported"], id="a preemption policy"),
        pytest.param({"activeDeadlineSeconds": -1}, ["activeDeadlineSeconds Invalid"], id="a deadline in the past"),
        pytest.param({"nodeName": "Not A Node"}, ["nodeName Invalid"], id="a bad node name"),
        pytest.param({"priorityClassName": "Not!"}, ["priorityClassName Invalid"], id="a bad class name"),
        pytest.param({"nodeSelector": {"a b": "c"}}, ["nodeSelector Invalid"], id="a bad node selector"),
        pytest.param({"overhead": {"cpu": "-1"}}, ["overhead[cpu] Invalid"], id="an overhead below zero"),
        pytest.param(
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            ["resources.requests Invalid"],
            id="pod-level requests above limits",
        ),
        pytest.param({"volumes": [{"name": ""}]}, ["volumes[0].name Required"], id="a volume without name"),
        pytest.param({"volumes": [{"name": "A"}]}, ["volumes[0].name Invalid"], id="a bad volume name"),
        pytest.param({"volumes": [{"name": "v"}, {"name": "v"}]}, ["volumes[1].name Duplicate"], id="a volume twice"),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
            ["volumes[0] Forbidden"],
            id="a volume with two sources",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
            ["volumes[0].persistentVolumeClaim.claimName Required"],
            id="a claim without name",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "g"}]}, ["resourceClaims[0] Invalid"], id="a device claim without source"
        ),
        pytest.param(
            {"resourceClaims": [{"name": "g", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]},
            ["resourceClaims[0] Invalid"],
            id="a device claim with two sources",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "", "resourceClaimName": "a"}]},
            ["resourceClaims[0].name Required"],
            id="a device claim without name",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "g", "resourceClaimName": "a"}] * 2},
            ["resourceClaims[1].name Duplicate"],
            id="a device claim twice",
        ),
    ],
)
def test_pods(spec: dict[str, Any], want: list[str]) -> None:
    assert wrong(**spec) == want


@pytest.mark.parametrize(
    ("container", "want"),
    [
        pytest.param({"name": ""}, ["name Required"], id="no name"),
        pytest.param({"name": "A"}, ["name Invalid"], id="a bad name"),
        pytest.param({"image": ""}, ["image Required"], id="no image"),
        pytest.param({"image": " i"}, ["image Invalid"], id="an image with a blank before it"),
        pytest.param({"imagePullPolicy": "Never ever"}, ["imagePullPolicy NotSupported"], id="a pull policy"),
        pytest.param(
            {"terminationMessagePolicy": "X"}, ["terminationMessagePolicy NotSupported"], id="a message policy"
        ),
        pytest.param({"ports": [{}]}, ["ports[0].containerPort Required"], id="a port without number"),
        pytest.param({"ports": [{"containerPort": 70000}]}, ["ports[0].containerPort Invalid"], id="a port too high"),
        pytest.param(
            {"ports": [{"containerPort": 1, "hostPort": -1}]}, ["ports[0].hostPort Invalid"], id="a host port too low"
        ),
        pytest.param(
            {"ports": [{"containerPort": 1, "protocol": "ICMP"}]}, ["ports[0].protocol NotSupported"], id="a protocol"
        ),
        pytest.param(
            {"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]},
            ["ports[1].hostPort Duplicate"],
            id="a host port twice",
        ),
        pytest.param(
            {"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 1, "hostPort": 80, "protocol": "UDP"}]},
            [],
            id="a host port for two protocols",
        ),
        pytest.param(
            {"volumeMounts": [{"mountPath": "/x"}]}, ["volumeMounts[0].name Required"], id="a mount of nothing"
        ),
        pytest.param(
            {"volumeMounts": [{"name": "v"}]},
            ["volumeMounts[0].name NotFound", "volumeMounts[0].mountPath Required"],
            id="a mount to nowhere",
        ),
        pytest.param({"env": [{"value": "x"}]}, ["env[0].name Required"], id="a variable without name"),
        pytest.param(
            {"resources": {"claims": [{"name": "g"}]}},
            ["resources.claims[0].name NotFound"],
            id="a device without a claim",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "-1"}}}, ["resources.requests[cpu] Invalid"], id="less than none"
        ),
        pytest.param(
            {"resources": {"limits": {"e.com/gpu": "1.5"}}},
            ["resources.limits[e.com/gpu] Invalid", "resources.requests[e.com/gpu] Invalid"],
            id="half a device",
        ),
        pytest.param(
            {"resources": {"requests": {"e.com/gpu": "1"}}}, ["resources.limits Required"], id="a device without limit"
        ),
        pytest.param(
            {"resources": {"requests": {"e.com/gpu": "1"}, "limits": {"e.com/gpu": "2"}}},
            ["resources.requests Invalid"],
            id="fewer devices than the limit",
        ),
        pytest.param(
            {"resources": {"requests": {"hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}},
            ["resources.requests Invalid"],
            id="huge pages cannot be overcommitted",
        ),
        pytest.param(
            {"resources": {"requests": {"a b": "1"}}}, ["resources.requests Invalid"], id="a resource with a bad name"
        ),
        pytest.param(
            {"resources": {"requests": {"gpu": "1", "hugepages-2Mi": "2Mi"}}},
            ["resources.requests[gpu] Invalid", "resources.requests[gpu] Invalid"],
            id="a resource without a domain",
        ),
    ],
)
def test_containers(container: dict[str, Any], want: list[str]) -> None:
    assert wrong(containers=[{**BARE, **container}]) == [f"containers[0].{each}" for each in want]


def test_a_name_is_used_once_among_all_containers() -> None:
    assert wrong(initContainers=[BARE]) == ["containers[0].name Duplicate"]


def test_a_mount_and_a_device_that_are_there() -> None:
    container = {
        **BARE,
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "resources": {"claims": [{"name": "g"}]},
    }
    claims = [{"name": "g", "resourceClaimName": "x"}]
    assert wrong(containers=[container], volumes=[{"name": "v"}], resourceClaims=claims) == []


# Updates

TERM = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
STRICTER = {"matchExpressions": [*TERM["matchExpressions"], {"key": "b", "operator": "Exists"}]}


def required(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


GATES = [{"name": "g"}]


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param(
            {}, {"containers": [BARE, {"name": "d", "image": "i"}]}, ["spec.containers"], id="one container more"
        ),
        pytest.param({}, {"containers": [{"name": "c", "image": "j"}]}, [], id="another image"),
        pytest.param(
            {}, {"containers": [{"name": "c", "image": "i", "tty": True}]}, ["spec"], id="something else of it"
        ),
        pytest.param({"initContainers": [BARE]}, {}, ["spec.initContainers"], id="one init container less"),
        pytest.param(
            {"tolerations": [{"key": "a", "tolerationSeconds": 5}]},
            {"tolerations": [{"key": "a", "tolerationSeconds": 9}]},
            [],
            id="a toleration for longer",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            ["spec.tolerations"],
            id="another toleration",
        ),
        pytest.param({"activeDeadlineSeconds": 9}, {"activeDeadlineSeconds": 5}, [], id="an earlier deadline"),
        pytest.param({"activeDeadlineSeconds": 9}, {}, ["spec.activeDeadlineSeconds"], id="no deadline any more"),
        pytest.param(
            {"terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 1}, [], id="a grace period mended"
        ),
        pytest.param(
            {"terminationGracePeriodSeconds": 5}, {"terminationGracePeriodSeconds": 1}, ["spec"], id="a shorter one"
        ),
        pytest.param({"schedulingGates": GATES}, {"schedulingGates": []}, [], id="a gate less"),
        pytest.param(
            {"schedulingGates": GATES},
            {"schedulingGates": [*GATES, {"name": "h"}]},
            ["spec.schedulingGates[1].name"],
            id="a gate more",
        ),
        pytest.param(
            {"schedulingGates": GATES},
            {"schedulingGates": GATES, "affinity": required(TERM)},
            [],
            id="a gated pod gets an affinity",
        ),
        pytest.param(
            {"schedulingGates": GATES, "affinity": required(TERM)},
            {"schedulingGates": GATES, "affinity": required(STRICTER)},
            [],
            id="a gated pod becomes stricter",
        ),
        pytest.param(
            {"schedulingGates": GATES, "affinity": required(STRICTER)},
            {"schedulingGates": GATES, "affinity": required(TERM)},
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"],
            id="a gated pod becomes laxer",
        ),
        pytest.param(
            {"schedulingGates": GATES, "affinity": required(TERM)},
            {"schedulingGates": GATES, "affinity": required(TERM, TERM)},
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"],
            id="a gated pod gets another way out",
        ),
        pytest.param(
            {"schedulingGates": GATES, "nodeSelector": {"a": "1"}},
            {"schedulingGates": GATES},
            ["spec.nodeSelector"],
            id="a gated pod loses its selector",
        ),
        pytest.param({"affinity": required(TERM)}, {"affinity": required(STRICTER)}, ["spec"], id="not without a gate"),
    ],
)
def test_updates(before: dict[str, Any], after: dict[str, Any], want: list[str]) -> None:
    old = {"spec": {"containers": [BARE], **before}}
    new = {"spec": {"containers": [BARE], **after}}
    assert [cause.field for cause in pod_validation.validate_update(copy.deepcopy(new), old)] == want


def test_an_update_may_leave_out_what_the_server_filled_in() -> None:
    old = {"spec": {"priority": 5, "preemptionPolicy": "Never", "enableServiceLinks": True, "nodeName": "n"}}
    new: dict[str, Any] = {"spec": {"priority": 6}}
    pod_validation.prepare_update(new, old)
    assert new["spec"] == {**old["spec"], "priority": 6}


def test_a_status_write_keeps_what_admission_decided() -> None:
    old = {
        "metadata": {"ownerReferences": [{"uid": "u"}]},
        "status": {
            "qosClass": "Burstable",
            "observedGeneration": 2,
            "conditions": [{"type": "Ready", "observedGeneration": 2}],
        },
    }
    new: dict[str, Any] = {
        "metadata": {},
        "status": {"qosClass": "x", "conditions": [{"type": "Ready"}, {"type": "New"}]},
    }
    pod_validation.prepare_status(new, old)
    assert new["metadata"] == old["metadata"]
    assert new["status"] == {
        "qosClass": "Burstable",
        "observedGeneration": 2,
        "conditions": [{"type": "Ready", "observedGeneration": 2}, {"type": "New"}],
    }


def test_what_was_found_valid_once_is_not_looked_at_again() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [copy.deepcopy(BARE)]}}
    default_pod(pod)
    assert pod_validation.validate(pod) == []
    key = pod_validation._encode(pod["spec"])
    assert key in pod_validation._known_valid
    pod["spec"]["containers"][0]["image"] = ""
    assert pod_validation.validate(pod) != []


def test_the_memory_of_valid_specs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_validation, "MAX_KNOWN_VALID", 2)
    monkeypatch.setattr(pod_validation, "_known_valid", set())
    for i in range(5):
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{**BARE, "image": f"i{i}"}]}}
        default_pod(pod)
        assert pod_validation.validate(pod) == []
    assert len(pod_validation._known_valid) <= 2
