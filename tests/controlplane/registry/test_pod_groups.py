"""PodGroups and Workloads of scheduling.k8s.io at the embedded API server."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.controlplane.registry.catalog import NAMESPACES, by_resource
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.serving.listing import columns_of
from mooring.controlplane.storage.store import Store
from mooring.controlplane.types.status import StatusError

GROUPS = by_resource("podgroups.scheduling.k8s.io")
WORKLOADS = by_resource("workloads.scheduling.k8s.io")
CLASSES = by_resource("priorityclasses.scheduling.k8s.io")
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


@pytest.fixture
def api() -> Api:
    api = Api(Store(), VirtualClock(1_767_225_600.0), new_uid=lambda: "uid")
    api.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    api.create(CLASSES, "", {"metadata": {"name": "high"}, "value": 1000})
    return api


def group(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(GANG, {"priority": 0, "disruptionMode": {"single": {}}}, id="a gang without a class"),
        pytest.param({**GANG, "priorityClassName": "high"}, {"priority": 1000}, id="the priority of its class"),
        pytest.param({**GANG, "disruptionMode": {"all": {}}}, {"disruptionMode": {"all": {}}}, id="evicted as one"),
    ],
)
def test_what_is_filled_in(api: Api, spec: dict[str, Any], want: dict[str, Any]) -> None:
    made = api.create(GROUPS, "default", group(**spec)).object()
    assert {key: made["spec"][key] for key in want} == want
    assert made["status"] == {}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, "spec.schedulingPolicy: Invalid value", id="no policy"),
        pytest.param(
            {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "exactly one of: `basic`, `gang`", id="two"
        ),
        pytest.param({"schedulingPolicy": {"gang": {}}}, "gang.minCount: Required value", id="a gang without a count"),
        pytest.param(
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            "minCount: Invalid value: 0: must be greater than or equal to 1",
            id="a gang of none",
        ),
        pytest.param(
            {**GANG, "schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "zone"}]}},
            "topology: Too many: 2: must have at most 1 item",
            id="two topologies",
        ),
        pytest.param({**GANG, "priorityClassName": "none"}, "no PriorityClass with name none was found", id="no class"),
        pytest.param(
            {**GANG, "priority": 7},
            "priority set in the pod group (7) must match the priority computed (0)",
            id="a priority by hand",
        ),
    ],
)
def test_what_is_refused(api: Api, spec: dict[str, Any], want: str) -> None:
    with pytest.raises(StatusError) as refused:
        api.create(GROUPS, "default", group(**spec))
    assert want in str(refused.value)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({"schedulingPolicy": {"gang": {"minCount": 1}}}, "", id="the count may change"),
        pytest.param({"schedulingPolicy": {"basic": {}}}, "spec.schedulingPolicy", id="the policy may not"),
        pytest.param({"disruptionMode": {"all": {}}}, "spec.disruptionMode", id="nor how it is evicted"),
    ],
)
def test_what_may_change(api: Api, change: dict[str, Any], want: str) -> None:
    made = api.create(GROUPS, "default", group(**GANG)).object()
    made["spec"] |= change
    if not want:
        updated, _ = api.update(GROUPS, "default", "train", made)
        assert updated.object()["spec"]["schedulingPolicy"] == {"gang": {"minCount": 1}}
        return
    with pytest.raises(StatusError) as refused:
        api.update(GROUPS, "default", "train", made)
    assert f"{want}: Invalid value" in str(refused.value) and "field is immutable" in str(refused.value)


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param([], "Pending", id="not tried yet"),
        pytest.param([("PodGroupInitiallyScheduled", "True")], "Scheduled", id="scheduled"),
        pytest.param([("PodGroupInitiallyScheduled", "False")], "Unschedulable", id="tried in vain"),
        pytest.param(
            [("PodGroupInitiallyScheduled", "True"), ("DisruptionTarget", "True")],
            "PreemptionByScheduler",
            id="being evicted",
        ),
    ],
)
def test_the_status_that_kubectl_shows(conditions: list[tuple[str, str]], want: str) -> None:
    found = [{"type": kind, "status": status, "reason": "PreemptionByScheduler"} for kind, status in conditions]
    cells = {
        column.name: column.cell({"spec": GANG, "status": {"conditions": found}}, 0.0)
        for column in columns_of(GROUPS)[1:4]
    }
    assert cells == {"Policy": "Gang", "Workload": "<none>", "Status": want}


def test_a_workload_has_at_most_eight_templates_and_each_has_a_policy(api: Api) -> None:
    template = {"name": "workers", **GANG}
    many = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template] * 9}}
    with pytest.raises(StatusError, match="must have at most 8 items"):
        api.create(WORKLOADS, "default", many)
    with pytest.raises(StatusError, match=r"podGroupTemplates\[0\].schedulingPolicy"):
        api.create(WORKLOADS, "default", {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [{"name": "x"}]}})
    assert api.create(WORKLOADS, "default", {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}})
