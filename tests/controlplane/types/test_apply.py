"""Server-side apply: several managers, what each owns, where they disagree, what goes when one stops saying it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.controlplane.registry.groups.core import CONFIG_MAPS
from mooring.controlplane.registry.groups.nodes import NODES
from mooring.controlplane.registry.groups.pods import PODS
from mooring.controlplane.registry.groups.workloads import DEPLOYMENTS
from mooring.controlplane.types import apply
from mooring.controlplane.types.kind import Kind, Object
from mooring.controlplane.types.status import StatusError


def deployment(**spec: Any) -> dict[str, Any]:
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"}, "spec": spec}


def applied(live: dict[str, Any], intent: dict[str, Any], manager: str, force: bool = False) -> dict[str, Any]:
    return apply.applied(DEPLOYMENTS, copy.deepcopy(live), copy.deepcopy(intent), manager, force, "", "now")


def test_what_a_manager_stops_saying_goes_unless_another_says_it() -> None:
    first = applied(deployment(), deployment(replicas=3, paused=True), "one")
    second = applied(first, deployment(paused=True), "two")
    third = applied(second, deployment(), "one")
    assert third["spec"] == {"paused": True}
    owners = {entry["manager"]: entry["fieldsV1"] for entry in third["metadata"]["managedFields"]}
    assert owners == {"two": {"f:spec": {"f:paused": {}}}, "one": {"f:spec": {}}}


def test_a_different_value_conflicts_until_forced() -> None:
    live = applied(deployment(), deployment(replicas=3), "one")
    with pytest.raises(StatusError) as refused:
        applied(live, deployment(replicas=4), "two")
    assert refused.value.code == 409
    assert refused.value.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.replicas"}
    ]
    forced = applied(live, deployment(replicas=4), "two", force=True)
    assert forced["spec"] == {"replicas": 4}
    assert [entry["manager"] for entry in forced["metadata"]["managedFields"]] == ["two"]


def test_equal_values_are_shared() -> None:
    live = applied(deployment(), deployment(replicas=3), "one")
    both = applied(live, deployment(replicas=3), "two")
    assert [entry["manager"] for entry in both["metadata"]["managedFields"]] == ["one", "two"]


def test_a_plain_write_takes_fields_over() -> None:
    live = applied(deployment(), deployment(replicas=3, paused=True), "one")
    new = copy.deepcopy(live)
    new["spec"]["replicas"] = 5
    apply.track(DEPLOYMENTS, live, new, "kubectl-edit", "", "later")
    owners = {entry["manager"]: entry["fieldsV1"] for entry in new["metadata"]["managedFields"]}
    assert owners == {"one": {"f:spec": {"f:paused": {}}}, "kubectl-edit": {"f:spec": {"f:replicas": {}}}}


def test_list_items_are_owned_by_key() -> None:
    intent = deployment(template={"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}})
    fields = apply.entry_for(DEPLOYMENTS, intent, "one", "", "now")["fieldsV1"]
    containers_owned = fields["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert list(containers_owned) == ['k:{"name":"a"}']
    assert list(containers_owned['k:{"name":"a"}']["f:ports"]) == ['k:{"containerPort":80,"protocol":"TCP"}']
    assert apply.to_fields(apply.from_fields(fields)) == fields


# One object, several managers


class Desk:
    """An object and the managers that apply to it."""

    def __init__(self, kind: Kind = PODS, **live: Any) -> None:
        self.kind = kind
        self.live: Object = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"name": "x"}, **live}

    def apply(self, manager: str, force: bool = False, subresource: str = "", **intent: Any) -> Object:
        said = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": {"name": "x"}}
        said |= copy.deepcopy(intent)
        self.live = apply.applied(self.kind, copy.deepcopy(self.live), said, manager, force, subresource, "now")
        return self.live

    def write(self, manager: str, subresource: str = "", **parts: Any) -> None:
        new = copy.deepcopy(self.live) | copy.deepcopy(parts)
        apply.track(self.kind, self.live, new, manager, subresource, "later")
        self.live = new

    def conflicts(self, manager: str, **intent: Any) -> list[str]:
        with pytest.raises(StatusError) as refused:
            self.apply(manager, **intent)
        assert refused.value.code == 409
        return [f"{cause['message']} {cause['field']}" for cause in refused.value.details["causes"]]

    def owners(self) -> dict[str, Object]:
        return {entry["manager"]: entry["fieldsV1"] for entry in self.live["metadata"].get("managedFields", [])}


def container(name: str, **fields: Any) -> Object:
    return {"name": name, **fields}


def test_two_managers_own_two_containers_of_one_list() -> None:
    desk = Desk()
    desk.apply("one", spec={"containers": [container("a", image="a:1")]})
    desk.apply("two", spec={"containers": [container("b", image="b:1")]})
    assert desk.live["spec"]["containers"] == [container("a", image="a:1"), container("b", image="b:1")]
    desk.apply("one", spec={})
    assert desk.live["spec"]["containers"] == [container("b", image="b:1")]


def test_an_item_is_kept_while_another_manager_owns_a_field() -> None:
    desk = Desk()
    desk.apply("one", spec={"containers": [container("a", image="a:1", workingDir="/x")]})
    desk.apply("two", spec={"containers": [container("a", tty=True)]})
    desk.apply("one", spec={})
    assert desk.live["spec"]["containers"] == [container("a", tty=True)]


def test_a_set_is_shared_value_by_value() -> None:
    desk = Desk()
    desk.apply("one", metadata={"name": "x", "finalizers": ["e/a", "e/b"]})
    desk.apply("two", metadata={"name": "x", "finalizers": ["e/b", "e/c"]})
    assert desk.live["metadata"]["finalizers"] == ["e/a", "e/b", "e/c"]
    desk.apply("one")
    assert desk.live["metadata"]["finalizers"] == ["e/b", "e/c"]


def test_labels_are_shared_key_by_key() -> None:
    desk = Desk()
    desk.apply("one", metadata={"name": "x", "labels": {"a": "1", "b": "1"}})
    desk.apply("two", metadata={"name": "x", "labels": {"b": "1", "c": "1"}})
    desk.apply("one", metadata={"name": "x", "labels": {"a": "2"}})
    assert desk.live["metadata"]["labels"] == {"a": "2", "b": "1", "c": "1"}
    assert desk.conflicts("two", metadata={"name": "x", "labels": {"a": "3"}}) == [
        'conflict with "one" .metadata.labels.a'
    ]


def test_an_atomic_list_belongs_to_one_manager() -> None:
    desk = Desk()
    desk.apply("one", spec={"tolerations": [{"key": "a"}]})
    assert desk.conflicts("two", spec={"tolerations": [{"key": "b"}]}) == ['conflict with "one" .spec.tolerations']
    desk.apply("two", force=True, spec={"tolerations": [{"key": "b"}]})
    assert desk.live["spec"]["tolerations"] == [{"key": "b"}]
    assert desk.owners()["two"] == {"f:spec": {"f:tolerations": {}}}


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param(
            {"containers": [container("a", image="1")]},
            {"containers": [container("a", image="2")]},
            ['conflict with "one" .spec.containers[name="a"].image'],
            id="a field of a list item",
        ),
        pytest.param(
            {"containers": [container("a", ports=[{"containerPort": 80, "name": "w"}])]},
            {"containers": [container("a", ports=[{"containerPort": 80, "name": "v"}])]},
            ['conflict with "one" .spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].name'],
            id="a list in a list, by two keys",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}},
            {"nodeSelector": {"a": "2"}},
            ['conflict with "one" .spec.nodeSelector'],
            id="a map that is atomic",
        ),
        pytest.param(
            {"hostNetwork": True, "nodeName": "n"},
            {"hostNetwork": False, "nodeName": "m"},
            ['conflict with "one" .spec.hostNetwork', 'conflict with "one" .spec.nodeName'],
            id="two fields",
        ),
    ],
)
def test_conflicts_name_the_manager_and_the_field(first: Object, second: Object, want: list[str]) -> None:
    desk = Desk()
    desk.apply("one", spec=first)
    assert desk.conflicts("two", spec=second) == want


def test_a_conflict_with_a_plain_write_says_which_version_it_used() -> None:
    desk = Desk(DEPLOYMENTS)
    desk.apply("one", spec={"paused": True})
    desk.write("kubectl", spec={"paused": True, "replicas": 2})
    assert desk.conflicts("one", spec={"replicas": 3}) == ['conflict with "kubectl" using apps/v1" .spec.replicas']


def test_conflicts_with_two_managers_are_grouped_by_manager() -> None:
    desk = Desk()
    desk.apply("one", spec={"nodeName": "n"})
    desk.apply("two", spec={"hostname": "h"})
    with pytest.raises(StatusError) as refused:
        desk.apply("three", spec={"nodeName": "m", "hostname": "i"})
    assert str(refused.value) == (
        'Apply failed with 2 conflicts: conflicts: conflicts with "one":\n- .spec.nodeName\n'
        'conflicts with "two":\n- .spec.hostname'
    )


def test_forcing_takes_only_what_differs() -> None:
    desk = Desk()
    desk.apply("one", spec={"nodeName": "n", "hostname": "h"})
    desk.apply("two", force=True, spec={"nodeName": "m", "hostname": "h"})
    assert desk.owners() == {
        "one": {"f:spec": {"f:hostname": {}}},
        "two": {"f:spec": {"f:hostname": {}, "f:nodeName": {}}},
    }


def test_status_is_owned_apart_from_the_rest() -> None:
    desk = Desk(NODES)
    desk.apply("one", spec={"unschedulable": True})
    desk.apply("one", subresource="status", status={"phase": "Running"}, spec={"unschedulable": False})
    assert desk.live["spec"] == {"unschedulable": True}, "only the status counts"
    entries = {(each["manager"], each.get("subresource", "")) for each in desk.live["metadata"]["managedFields"]}
    assert entries == {("one", ""), ("one", "status")}
    desk.apply("one")
    assert "spec" not in desk.live and desk.live["status"] == {"phase": "Running"}


def test_applying_the_same_again_changes_nothing_not_even_the_time() -> None:
    desk = Desk()
    before = copy.deepcopy(desk.apply("one", spec={"nodeName": "n"}))
    intent = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": {"nodeName": "n"}}
    assert apply.applied(PODS, copy.deepcopy(before), intent, "one", False, "", "much later") == before


def test_a_manager_that_says_nothing_owns_nothing() -> None:
    desk = Desk(CONFIG_MAPS)
    desk.apply("one", data={"a": "1"})
    desk.apply("one")
    assert "data" not in desk.live
    assert desk.owners() == {}


def test_what_the_server_owns_belongs_to_no_manager() -> None:
    desk = Desk()
    desk.apply(
        "one", metadata={"name": "x", "namespace": "n", "uid": "u", "creationTimestamp": "t", "labels": {"a": "b"}}
    )
    assert desk.owners() == {"one": {"f:metadata": {"f:labels": {"f:a": {}}}}}


# Plain writes on an object that has been applied


@pytest.mark.parametrize(
    ("spec", "owners"),
    [
        pytest.param(
            {"replicas": 3, "paused": True},
            {"one": {"f:spec": {"f:paused": {}, "f:replicas": {}}}},
            id="a write without a change owns nothing",
        ),
        pytest.param(
            {"replicas": 4, "paused": True},
            {"one": {"f:spec": {"f:paused": {}}}, "edit": {"f:spec": {"f:replicas": {}}}},
            id="a changed value changes hands",
        ),
        pytest.param({"paused": True}, {"one": {"f:spec": {"f:paused": {}}}}, id="a removed field has no owner"),
        pytest.param(
            {"replicas": 3, "paused": True, "minReadySeconds": 5},
            {
                "one": {"f:spec": {"f:paused": {}, "f:replicas": {}}},
                "edit": {"f:spec": {"f:minReadySeconds": {}}},
            },
            id="a new field belongs to its writer",
        ),
    ],
)
def test_plain_writes(spec: Object, owners: dict[str, Object]) -> None:
    desk = Desk(DEPLOYMENTS)
    desk.apply("one", spec={"replicas": 3, "paused": True})
    desk.write("edit", spec=spec)
    assert desk.owners() == owners


def test_a_second_write_adds_to_the_first_of_its_manager() -> None:
    desk = Desk(DEPLOYMENTS)
    desk.apply("one", spec={"paused": True})
    desk.write("edit", spec={"paused": True, "replicas": 1})
    desk.write("edit", spec={"paused": True, "replicas": 1, "minReadySeconds": 2})
    assert desk.owners()["edit"] == {"f:spec": {"f:minReadySeconds": {}, "f:replicas": {}}}


def test_an_object_that_was_never_applied_is_not_tracked() -> None:
    desk = Desk(DEPLOYMENTS)
    desk.write("edit", spec={"replicas": 1})
    assert desk.owners() == {}


# Properties

NAMES = st.sampled_from(["a", "b", "c"])
INTENTS = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(NAMES, NAMES, min_size=1, max_size=3),
        "finalizers": st.lists(NAMES.map(lambda name: f"e/{name}"), unique=True, min_size=1, max_size=3),
        "containers": st.lists(
            st.fixed_dictionaries({"name": NAMES}, optional={"image": NAMES, "tty": st.booleans()}),
            unique_by=lambda each: each["name"],
            min_size=1,
            max_size=3,
        ),
        "tolerations": st.lists(st.fixed_dictionaries({"key": NAMES}), min_size=1, max_size=2),
        "hostname": NAMES,
    },
)


def as_parts(intent: Object) -> Object:
    intent = copy.deepcopy(intent)
    metadata = {"name": "x"} | {key: intent.pop(key) for key in ("labels", "finalizers") if key in intent}
    return {"metadata": metadata, **({"spec": intent} if intent else {})}


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), INTENTS), min_size=1, max_size=6))
def test_after_forcing_the_object_says_what_its_last_manager_said(steps: list[tuple[str, Object]]) -> None:
    desk = Desk()
    for manager, intent in steps:
        parts = as_parts(intent)
        live = desk.apply(manager, force=True, **parts)
        wanted, have = apply.leaves("core.v1.Pod", parts), apply.leaves("core.v1.Pod", live)
        for path, value in wanted.items():
            assert have[path] == value
        for entry in live["metadata"].get("managedFields", []):
            owned = apply.from_fields(entry["fieldsV1"])
            assert owned <= have.keys(), "an owned field that does not exist"


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), INTENTS), max_size=5))
def test_a_value_without_owners_is_removed(steps: list[tuple[str, Object]]) -> None:
    desk = Desk()
    for manager, intent in steps:
        desk.apply(manager, force=True, **as_parts(intent))
    for manager in ("one", "two"):
        desk.apply(manager, force=True)
    assert not apply.leaves("core.v1.Pod", desk.live)
    assert desk.owners() == {}


@settings(max_examples=100)
@given(INTENTS)
def test_paths_and_fields_are_two_forms_of_one_thing(intent: Object) -> None:
    paths = set(apply.leaves("core.v1.Pod", as_parts(intent)))
    assert apply.from_fields(apply.to_fields(paths)) == paths
