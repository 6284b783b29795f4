"""The verbs without HTTP: what each promises, and how it refuses."""

from __future__ import annotations

import json
import random
import uuid
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS
from mooring.controlplane.registry.groups import core as events_group
from mooring.controlplane.registry.groups.core import CONFIG_MAPS, EVENTS
from mooring.controlplane.registry.groups.nodes import LEASES
from mooring.controlplane.registry.groups.workloads import DEPLOYMENTS
from mooring.controlplane.registry.verbs import Api, Options, _random_uid
from mooring.controlplane.storage.store import Store
from mooring.controlplane.types import patch
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import StatusError

START = 1_767_225_600.0
LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
def api() -> Api:
    api = Api(Store(), VirtualClock(START), rng=random.Random(1))
    for name in ("default", "other"):
        api.create(NAMESPACES, "", {"metadata": {"name": name}})
    return api


def config(name: str = "c", **parts: Any) -> Object:
    return {"metadata": {"name": name}, **parts}


def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(StatusError) as refused:
        call()
    return refused.value.code, str(refused.value)


# Create


def test_the_server_decides_identity_time_and_version(api: Api) -> None:
    given = {
        "metadata": {
            "name": "c",
            "uid": "mine",
            "creationTimestamp": "1999-01-01T00:00:00Z",
            "generation": 7,
            "selfLink": "/x",
            "managedFields": [{"manager": "me"}],
            "deletionTimestamp": "1999-01-01T00:00:00Z",
        },
        "data": {"a": "b"},
    }
    entry = api.create(CONFIG_MAPS, "default", given)
    metadata = entry.object()["metadata"]
    assert metadata["uid"] not in ("", "mine")
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["resourceVersion"] == str(entry.rv)
    assert not metadata.keys() & {"generation", "selfLink", "managedFields", "deletionTimestamp"}


@pytest.mark.parametrize(
    ("namespace", "obj", "code", "want"),
    [
        pytest.param("default", config("A"), 422, "RFC 1123 subdomain", id="a bad name"),
        pytest.param("default", {"metadata": {}}, 422, "name or generateName is required", id="no name"),
        pytest.param("nowhere", config(), 404, 'namespaces "nowhere" not found', id="no such namespace"),
        pytest.param(
            "default",
            {"metadata": {"name": "c", "namespace": "other"}},
            400,
            "does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param(
            "default",
            {"metadata": {"name": "c", "resourceVersion": "5"}},
            400,
            "resourceVersion should not be set on objects to be created",
            id="a version",
        ),
    ],
)
def test_what_cannot_be_created(api: Api, namespace: str, obj: Object, code: int, want: str) -> None:
    got, message = refusal(lambda: api.create(CONFIG_MAPS, namespace, obj))
    assert got == code and want in message


def test_nothing_is_created_twice(api: Api) -> None:
    api.create(CONFIG_MAPS, "default", config())
    assert refusal(lambda: api.create(CONFIG_MAPS, "default", config())) == (409, 'configmaps "c" already exists')
    api.create(CONFIG_MAPS, "other", config())


def test_a_cluster_wide_object_is_in_no_namespace(api: Api) -> None:
    obj = {"metadata": {"name": "n", "namespace": "default"}}
    assert refusal(lambda: api.create(NODES, "", obj)) == (400, "namespace is not allowed on this type")


def test_a_dry_run_says_what_would_be(api: Api) -> None:
    before = api.store.rv
    entry = api.create(CONFIG_MAPS, "default", config(), Options(dry_run=True))
    assert entry.object()["metadata"]["uid"]
    assert api.store.rv == before and api.find(CONFIG_MAPS, "default", "c") is None
    api.create(CONFIG_MAPS, "default", config())
    code, _ = refusal(lambda: api.create(CONFIG_MAPS, "default", config(), Options(dry_run=True)))
    assert code == 409


def test_a_generated_name_avoids_those_that_are_taken(api: Api) -> None:
    twin = random.Random(1)
    taken = "c-" + "".join(twin.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
    api.create(CONFIG_MAPS, "default", config(taken))
    made = api.create(CONFIG_MAPS, "default", {"metadata": {"generateName": "c-"}})
    assert made.name != taken and made.name.startswith("c-")
    assert list(made.object()["metadata"])[:2] == ["name", "generateName"]


def test_a_terminating_namespace_takes_nothing_more(api: Api) -> None:
    api.create(CONFIG_MAPS, "other", config())
    api.delete(NAMESPACES, "", "other")
    with pytest.raises(StatusError, match="because it is being terminated") as refused:
        api.create(CONFIG_MAPS, "other", config("d"))
    assert refused.value.code == 403
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"


# Decoding


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param({"kind": "Secret"}, "cannot be handled as a ConfigMap", id="another kind"),
        pytest.param({"apiVersion": "v2"}, "does not match the expected API version (v1)", id="another version"),
    ],
)
def test_bodies_of_something_else(api: Api, body: Object, want: str) -> None:
    code, message = refusal(lambda: api.decode(CONFIG_MAPS, json.dumps(body).encode(), Options()))
    assert code == 400 and want in message


@pytest.mark.parametrize(
    ("validation", "warnings", "code"),
    [("Ignore", 0, 0), ("Warn", 2, 0), ("Strict", 0, 400)],
)
def test_unknown_fields(api: Api, validation: str, warnings: int, code: int) -> None:
    body = b'{"metadata":{"name":"c","nick":"n"},"dada":{}}'
    options = Options(field_validation=validation)
    if code:
        assert refusal(lambda: api.decode(CONFIG_MAPS, body, options))[0] == code
    else:
        assert api.decode(CONFIG_MAPS, body, options)["metadata"] == {"name": "c"}
        assert len(options.warnings) == warnings


# Update


def test_an_update_replaces_and_counts_versions(api: Api) -> None:
    first = api.create(CONFIG_MAPS, "default", config(data={"a": "1"}))
    new, is_new = api.update(CONFIG_MAPS, "default", "c", config(data={"b": "2"}))
    assert not is_new and new.rv > first.rv
    assert new.object()["data"] == {"b": "2"} and new.uid == first.uid


def test_an_update_without_a_change_is_none(api: Api) -> None:
    first = api.create(CONFIG_MAPS, "default", config(data={"a": "1"}))
    again, _ = api.update(CONFIG_MAPS, "default", "c", first.object())
    assert again.rv == first.rv


@pytest.mark.parametrize(
    ("name", "metadata", "code", "want"),
    [
        pytest.param("c", {"resourceVersion": "1"}, 409, "the object has been modified", id="a stale version"),
        pytest.param("c", {"uid": "other"}, 409, "Precondition failed: UID in precondition: other", id="a namesake"),
        pytest.param("c", {"name": "d"}, 400, "the name of the object (d) does not match", id="another name"),
        pytest.param("nobody", {"name": "nobody"}, 404, 'configmaps "nobody" not found', id="nothing there"),
    ],
)
def test_updates_that_are_refused(api: Api, name: str, metadata: Object, code: int, want: str) -> None:
    api.create(CONFIG_MAPS, "default", config())
    obj = {"metadata": {"name": "c", **metadata}}
    got, message = refusal(lambda: api.update(CONFIG_MAPS, "default", name, obj))
    assert got == code and want in message


def test_some_kinds_are_created_by_an_update_and_need_a_version_to_change(api: Api) -> None:
    lease = {"metadata": {"name": "l", "resourceVersion": "99"}, "spec": {"holderIdentity": "a"}}
    entry, is_new = api.update(LEASES, "default", "l", lease)
    assert is_new
    blind = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}}
    code, message = refusal(lambda: api.update(LEASES, "default", "l", blind))
    assert code == 422 and "must be specified for an update" in message
    sighted = {"metadata": {"name": "l", "resourceVersion": str(entry.rv)}, "spec": {"holderIdentity": "b"}}
    assert api.update(LEASES, "default", "l", sighted)[0].object()["spec"]["holderIdentity"] == "b"


def test_a_change_of_spec_counts_the_generation_up(api: Api) -> None:
    spec = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    api.create(DEPLOYMENTS, "default", {"metadata": {"name": "d"}, "spec": spec})

    def generation() -> int:
        return int(api.get(DEPLOYMENTS, "default", "d").object()["metadata"]["generation"])

    api.modify(DEPLOYMENTS, "default", "d", lambda obj: obj["spec"].update(replicas=2))
    assert generation() == 2
    api.modify(DEPLOYMENTS, "default", "d", lambda obj: obj["metadata"].update(labels={"a": "b"}))
    assert generation() == 2
    api.modify(DEPLOYMENTS, "default", "d", lambda obj: obj.update(status={"replicas": 2}), subresource="status")
    assert generation() == 2


def test_spec_and_status_are_written_apart(api: Api) -> None:
    api.create(NODES, "", {"metadata": {"name": "n"}})

    def both(obj: Object) -> None:
        obj["spec"] = {"unschedulable": True}
        obj["status"]["phase"] = "Running"

    after = api.modify(NODES, "", "n", both).object()
    assert after["spec"] == {"unschedulable": True} and "phase" not in after["status"]
    after = api.modify(NODES, "", "n", both, subresource="status").object()
    assert after["status"]["phase"] == "Running"


def test_a_check_sees_what_is_written_and_may_refuse_it(api: Api) -> None:
    seen: list[tuple[Any, Any]] = []

    def check(new: Object, old: Object | None) -> None:
        seen.append((new.get("data"), old and old.get("data")))
        if new.get("data") == {"a": "bad"}:
            raise StatusError(403, "Forbidden", "no")

    options = Options(check=check)
    api.create(CONFIG_MAPS, "default", config(data={"a": "1"}), options)
    api.update(CONFIG_MAPS, "default", "c", config(data={"a": "2"}), options)
    assert refusal(lambda: api.update(CONFIG_MAPS, "default", "c", config(data={"a": "bad"}), options)) == (403, "no")
    assert seen == [({"a": "1"}, None), ({"a": "2"}, {"a": "1"}), ({"a": "bad"}, {"a": "2"})]
    assert api.get(CONFIG_MAPS, "default", "c").object()["data"] == {"a": "2"}


# Patch


def patched(api: Api, body: Any, kind: str = patch.MERGE, **options: Any) -> tuple[Object, bool]:
    entry, is_new = api.patch(CONFIG_MAPS, "default", "c", kind, json.dumps(body).encode(), Options(**options))
    return entry.object(), is_new


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (patch.MERGE, {"data": {"b": "2"}}),
        (patch.STRATEGIC, {"data": {"b": "2"}}),
        (patch.JSON, [{"op": "add", "path": "/data/b", "value": "2"}]),
    ],
)
def test_patches_of_three_kinds(api: Api, kind: str, body: Any) -> None:
    api.create(CONFIG_MAPS, "default", config(data={"a": "1"}))
    assert patched(api, body, kind)[0]["data"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("body", "code", "want"),
    [
        pytest.param({"metadata": {"name": "d"}}, 422, "metadata.name: Invalid", id="another name"),
        pytest.param({"metadata": {"namespace": "other"}}, 400, "does not match the namespace", id="another namespace"),
        pytest.param({"metadata": {"resourceVersion": "1"}}, 409, "has been modified", id="a stale version"),
        pytest.param({"kind": "Secret"}, 400, "a patch cannot change kind", id="another kind"),
        pytest.param({"apiVersion": "v2"}, 400, "a patch cannot change apiVersion", id="another version"),
        pytest.param({"data": []}, 400, "cannot unmarshal array", id="a list for a map"),
        pytest.param([], 400, "must be a JSON object, found an array", id="a list"),
    ],
)
def test_patches_that_are_refused(api: Api, body: Any, code: int, want: str) -> None:
    api.create(CONFIG_MAPS, "default", config())
    got, message = refusal(lambda: patched(api, body))
    assert got == code and want in message


def test_a_patch_of_nothing(api: Api) -> None:
    assert refusal(lambda: patched(api, {}))[0] == 404


def test_unknown_fields_of_a_patch_are_dropped_with_a_warning(api: Api) -> None:
    api.create(CONFIG_MAPS, "default", config())
    options = Options()
    entry, _ = api.patch(CONFIG_MAPS, "default", "c", patch.MERGE, b'{"dada":1}', options)
    assert "dada" not in entry.object() and options.warnings == ['unknown field "dada"']


# Apply


def applied(api: Api, manager: str = "me", **parts: Any) -> tuple[Object, bool]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", **parts}
    return patched(api, body, patch.APPLY, manager=manager)


def test_apply_creates_and_then_changes(api: Api) -> None:
    made, is_new = applied(api, data={"a": "1"})
    assert is_new and made["metadata"]["managedFields"][0]["manager"] == "me"
    again, is_new = applied(api, data={"a": "2"})
    assert not is_new and again["data"] == {"a": "2"}
    same, _ = applied(api, data={"a": "2"})
    assert same["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("parts", "manager", "code", "want"),
    [
        pytest.param({}, "", 422, "is required for apply patch", id="no manager"),
        pytest.param({"metadata": {"managedFields": [{}]}}, "me", 400, "must be nil", id="managed fields"),
        pytest.param({"metadata": {"name": "d"}}, "me", 400, "does not match the name on the URL", id="another name"),
        pytest.param({"metadata": {"resourceVersion": "1"}}, "me", 409, "has been modified", id="a stale version"),
    ],
)
def test_applies_that_are_refused(api: Api, parts: Any, manager: str, code: int, want: str) -> None:
    applied(api, data={"a": "1"})
    got, message = refusal(lambda: applied(api, manager, **parts))
    assert got == code and want in message


def test_a_status_cannot_be_applied_to_nothing(api: Api) -> None:
    body = b'{"apiVersion":"v1","kind":"Node"}'
    options = Options(manager="me")
    assert refusal(lambda: api.patch(NODES, "", "n", patch.APPLY, body, options, subresource="status"))[0] == 404


def test_a_dry_apply_changes_nothing(api: Api) -> None:
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}).encode()
    options = Options(dry_run=True, manager="me")
    entry, is_new = api.patch(CONFIG_MAPS, "default", "c", patch.APPLY, body, options)
    assert is_new and entry.object()["metadata"]["managedFields"]
    assert api.find(CONFIG_MAPS, "default", "c") is None


# Reading


def test_objects_are_copies_chosen_by_label(api: Api) -> None:
    api.create(CONFIG_MAPS, "default", {"metadata": {"name": "a", "labels": LABELS}})
    api.create(CONFIG_MAPS, "default", {"metadata": {"name": "b"}})
    (found,) = api.objects(CONFIG_MAPS, "default", "app=web")
    found["metadata"]["name"] = "changed"
    assert [obj["metadata"]["name"] for obj in api.objects(CONFIG_MAPS)] == ["a", "b"]
    assert [entry.name for entry in api.each(CONFIG_MAPS, "other")] == []


def test_events_are_one_thing_under_two_names(api: Api) -> None:
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "note": "hello"}
    api.create(events_group.GROUPED_EVENTS, "default", event)
    stored = api.get(EVENTS, "default", "e").object()
    assert (stored["apiVersion"], stored["involvedObject"]["name"], stored["message"]) == ("v1", "p", "hello")
    (shown,) = api.objects(events_group.GROUPED_EVENTS, "default")
    assert (shown["apiVersion"], shown["regarding"]["name"]) == ("events.k8s.io/v1", "p")
    body = b'{"note":"bye"}'
    entry, _ = api.patch(events_group.GROUPED_EVENTS, "default", "e", patch.MERGE, body)
    assert entry.object()["message"] == "bye"


# Delete


@pytest.mark.parametrize(
    ("options", "code", "want"),
    [
        ({"preconditions": {"uid": "other"}}, 409, "UID in precondition: other"),
        ({"preconditions": {"resourceVersion": "1"}}, 409, "ResourceVersion in precondition: 1"),
        ({"propagationPolicy": "Sideways"}, 422, "propagationPolicy: Unsupported"),
        ({"gracePeriodSeconds": -1}, 422, "must be greater than or equal to 0"),
        ({"orphanDependents": True, "propagationPolicy": "Orphan"}, 422, "cannot be both set"),
    ],
    ids=["a namesake", "a stale version", "a policy", "a grace period", "two policies"],
)
def test_deletions_that_are_refused(api: Api, options: Object, code: int, want: str) -> None:
    api.create(CONFIG_MAPS, "default", config())
    got, message = refusal(lambda: api.delete(CONFIG_MAPS, "default", "c", options))
    assert got == code and want in message
    assert api.find(CONFIG_MAPS, "default", "c") is not None


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
def test_a_policy_becomes_a_finalizer(api: Api, options: Object, finalizers: list[str]) -> None:
    api.create(CONFIG_MAPS, "default", config())
    entry, is_gone = api.delete(CONFIG_MAPS, "default", "c", options)
    assert not is_gone and entry.object()["metadata"]["finalizers"] == finalizers
    changed, _ = api.delete(CONFIG_MAPS, "default", "c", {"propagationPolicy": "Background"})
    assert api.find(CONFIG_MAPS, "default", "c") is None, "a later wish counts"
    assert changed.name == "c"


def test_a_dry_deletion_changes_nothing(api: Api) -> None:
    api.create(CONFIG_MAPS, "default", config())
    _, is_gone = api.delete(CONFIG_MAPS, "default", "c", dry_run=True)
    assert is_gone and api.find(CONFIG_MAPS, "default", "c") is not None


@pytest.mark.parametrize(
    ("spec", "options", "want"),
    [
        pytest.param({}, {}, 30, id="the default"),
        pytest.param({"terminationGracePeriodSeconds": 5}, {}, 5, id="the pod's own"),
        pytest.param({"terminationGracePeriodSeconds": -5}, {}, 1, id="below zero is one second"),
        pytest.param({"terminationGracePeriodSeconds": 2**40}, {}, 2**31, id="as long as can be written"),
        pytest.param({}, {"gracePeriodSeconds": 7}, 7, id="the request's"),
    ],
)
def test_how_long_a_bound_pod_may_take(api: Api, spec: Object, options: Object, want: int) -> None:
    api.create(PODS, "default", {"metadata": {"name": "p"}, "spec": {**TEMPLATE["spec"], "nodeName": "n", **spec}})
    entry, is_gone = api.delete(PODS, "default", "p", options)
    assert not is_gone and entry.object()["metadata"]["deletionGracePeriodSeconds"] == want


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_deleted_immediately(api: Api, phase: str) -> None:
    api.create(PODS, "default", {"metadata": {"name": "p"}, "spec": {**TEMPLATE["spec"], "nodeName": "n"}})
    api.modify(PODS, "default", "p", lambda obj: obj["status"].update(phase=phase), subresource="status")
    assert api.delete(PODS, "default", "p")[1] is True


def test_work_is_done_when_it_returns(api: Api) -> None:
    done: list[int] = []
    assert api.carry_out(lambda: done.append(1)) is None
    assert done == [1]


def test_uids_are_random_uuids() -> None:
    uids = {uuid.UUID(_random_uid()) for _ in range(100)}
    assert len(uids) == 100
    assert all(uid.version == 4 and uid.variant == uuid.RFC_4122 for uid in uids)


def test_objects_made_in_the_process_need_no_type_and_stay_the_servers(api: Api) -> None:
    labels = {"a": "b"}
    made = api.create(CONFIG_MAPS, "default", {"metadata": {"name": "c", "labels": labels}})
    labels["a"] = "changed"
    assert (made.object()["kind"], made.object()["apiVersion"], dict(made.labels)) == ("ConfigMap", "v1", {"a": "b"})
    assert [obj["metadata"]["name"] for obj in api.objects(CONFIG_MAPS, labels="a=b")] == ["c"]
