"""What admission decides for a pod, and what it refuses; and the defaults before it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS
from mooring.controlplane.registry.groups.nodes import PRIORITY_CLASSES, RUNTIME_CLASSES
from mooring.controlplane.registry.groups.pods import default_pod
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage.store import Store
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import StatusError

CONTAINER = {"name": "c", "image": "i"}


def make_api(**options: Any) -> Api:
    api = Api(Store(), VirtualClock(1_767_225_600.0), **options)
    api.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    high = {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"}
    api.create(PRIORITY_CLASSES, "", high)
    scheduling = {"nodeSelector": {"vm": "true"}, "tolerations": [{"key": "vm", "operator": "Exists"}]}
    sandbox = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "250m"}}}
    api.create(RUNTIME_CLASSES, "", {**sandbox, "scheduling": scheduling})
    api.create(RUNTIME_CLASSES, "", {"metadata": {"name": "plain"}, "handler": "plain"})
    return api


def admitted(api: Api, metadata: Object | None = None, **spec: Any) -> Object:
    obj = {"metadata": metadata or {"name": "p"}, "spec": {"containers": [copy.deepcopy(CONTAINER)], **spec}}
    return api.create(PODS, "default", obj).object()


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"priorityClassName": "low"}, "no PriorityClass with name low was found", id="no such class"),
        pytest.param(
            {"priorityClassName": "high", "priority": 5},
            "the integer value of priority (5) must not be provided",
            id="another number",
        ),
        pytest.param({"priority": 5}, "computed 0 from the given PriorityClass name", id="a number without class"),
        pytest.param(
            {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided",
            id="another policy",
        ),
        pytest.param({"runtimeClassName": "none"}, 'RuntimeClass "none" not found', id="no such runtime class"),
        pytest.param(
            {"overhead": {"cpu": "1"}},
            "without corresponding RuntimeClass defined Overhead",
            id="an overhead of its own",
        ),
        pytest.param(
            {"runtimeClassName": "vm", "overhead": {"cpu": "1"}},
            "doesn't match RuntimeClass's defined Overhead",
            id="another overhead",
        ),
        pytest.param(
            {"runtimeClassName": "vm", "nodeSelector": {"vm": "false"}},
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = true; pod.spec.nodeSelector[vm] = false",
            id="another selector",
        ),
    ],
)
def test_what_is_refused(spec: Object, want: str) -> None:
    with pytest.raises(StatusError) as refused:
        admitted(make_api(), **spec)
    assert refused.value.code == 403 and want in str(refused.value)
    assert str(refused.value).startswith('pods "p" is forbidden: ')


def test_a_refusal_names_a_pod_without_name_by_the_start_of_it() -> None:
    with pytest.raises(StatusError, match='pods "web-" is forbidden'):
        admitted(make_api(), {"generateName": "web-"}, priorityClassName="low")


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, (0, "PreemptLowerPriority"), id="no class"),
        pytest.param({"priorityClassName": "high"}, (100, "Never"), id="a class"),
        pytest.param({"priorityClassName": "high", "priority": 100}, (100, "Never"), id="a class and its number"),
    ],
)
def test_priority(spec: Object, want: tuple[int, str]) -> None:
    made = admitted(make_api(), **spec)["spec"]
    assert (made["priority"], made["preemptionPolicy"]) == want


def test_the_lowest_of_several_default_classes_counts() -> None:
    api = make_api()
    for name, value in (("a", 20), ("b", 10)):
        api.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value, "globalDefault": True})
    made = admitted(api)["spec"]
    assert (made["priorityClassName"], made["priority"]) == ("b", 10)


def test_a_runtime_class_adds_what_its_pods_need() -> None:
    made = admitted(make_api(), runtimeClassName="vm", overhead={"cpu": "0.25"}, nodeSelector={"a": "b"})["spec"]
    assert made["overhead"] == {"cpu": "250m"}
    assert made["nodeSelector"] == {"a": "b", "vm": "true"}
    assert made["tolerations"] == [{"key": "vm", "operator": "Exists"}]


def test_a_runtime_class_that_asks_for_nothing_changes_nothing() -> None:
    made = admitted(make_api(), runtimeClassName="plain")["spec"]
    assert not made.keys() & {"overhead", "nodeSelector", "tolerations"}


@pytest.mark.parametrize(
    ("tolerations", "added"),
    [
        pytest.param([], ["not-ready", "unreachable"], id="none"),
        pytest.param([{"operator": "Exists"}], [], id="everything"),
        pytest.param(
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            ["unreachable"],
            id="one of the two",
        ),
        pytest.param(
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}],
            ["not-ready", "unreachable"],
            id="for another effect",
        ),
    ],
)
def test_five_minutes_on_a_node_that_is_not_ready(tolerations: list[Object], added: list[str]) -> None:
    made = admitted(make_api(default_tolerations=True), tolerations=copy.deepcopy(tolerations))["spec"]["tolerations"]
    new = [each for each in made if each not in tolerations]
    assert [each["key"].removeprefix("node.kubernetes.io/") for each in new] == added
    assert all(each["tolerationSeconds"] == 300 for each in new)


def test_a_pod_that_names_its_node_gets_the_nodes_zone() -> None:
    api = make_api()
    api.create(NODES, "", {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "a", "x": "y"}}})
    assert admitted(api, nodeName="n")["metadata"]["labels"] == {"topology.kubernetes.io/zone": "a"}
    assert "labels" not in admitted(api, {"name": "q"}, nodeName="nowhere")["metadata"]


# Defaults


def defaulted(**spec: Any) -> Object:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [copy.deepcopy(CONTAINER)], **spec}}
    default_pod(pod)
    made: Object = pod["spec"]
    return made


@pytest.mark.parametrize(
    ("image", "want"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:1", "IfNotPresent"),
        ("host:5000/app", "Always"),
        ("host:5000/app:1", "IfNotPresent"),
        ("app@sha256:abc", "IfNotPresent"),
    ],
)
def test_when_images_are_pulled(image: str, want: str) -> None:
    assert defaulted(containers=[{"name": "c", "image": image}])["containers"][0]["imagePullPolicy"] == want


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"configMap": {"name": "c"}}, {"configMap": {"name": "c", "defaultMode": 420}}),
        ({"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        ({}, {"emptyDir": {}}),
        ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}}},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"}
                    }
                }
            },
        ),
    ],
    ids=["a secret", "a config map", "a host path", "nothing", "a limited directory", "an ephemeral claim"],
)
def test_volumes(volume: Object, want: Object) -> None:
    assert defaulted(volumes=[{"name": "v", **volume}])["volumes"] == [{"name": "v", **want}]


def test_probes_and_ports() -> None:
    container = {
        **CONTAINER,
        "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}},
        "livenessProbe": {"grpc": {"port": 9}, "periodSeconds": 3},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    }
    (made,) = defaulted(containers=[container], hostNetwork=True)["containers"]
    assert made["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]
    assert made["readinessProbe"]["httpGet"] == {"port": 80, "path": "/", "scheme": "HTTP"}
    assert made["livenessProbe"]["grpc"]["service"] == ""
    assert (made["livenessProbe"]["periodSeconds"], made["livenessProbe"]["failureThreshold"]) == (3, 3)
    assert made["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"serviceAccountName": "a"}, "a"),
        ({"serviceAccount": "b"}, "b"),
    ],
)
def test_the_two_names_of_a_service_account(given: Object, want: str) -> None:
    made = defaulted(**given)
    assert (made["serviceAccountName"], made["serviceAccount"]) == (want, want)


def test_empty_fields_are_left_out() -> None:
    made = defaulted(nodeName="", tolerations=[], nodeSelector={}, hostNetwork=False, priorityClassName="")
    assert not made.keys() & {"nodeName", "tolerations", "nodeSelector", "hostNetwork", "priorityClassName"}


@pytest.mark.parametrize(
    ("init", "limits", "want"),
    [
        pytest.param([], {"cpu": "4"}, {"cpu": "1500m"}, id="the sum of the containers"),
        pytest.param(
            [{"resources": {"requests": {"cpu": "3"}}}],
            {"cpu": "4"},
            {"cpu": "3"},
            id="an init container that needs more",
        ),
        pytest.param(
            [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
            {"cpu": "4"},
            {"cpu": "2500m"},
            id="a sidecar adds up",
        ),
        pytest.param(
            [], {"memory": "1Gi"}, {"cpu": "1500m", "memory": "1Gi"}, id="the limit where nothing is asked for"
        ),
    ],
)
def test_requests_of_the_whole_pod(init: list[Object], limits: Object, want: Object) -> None:
    containers = [
        {"name": "a", "image": "i", "resources": {"requests": {"cpu": "1"}}},
        {"name": "b", "image": "i", "resources": {"requests": {"cpu": "500m"}}},
    ]
    inits = [{"name": f"i{n}", "image": "i", **each} for n, each in enumerate(init)]
    made = defaulted(containers=containers, initContainers=inits, resources={"limits": limits})
    assert made["resources"]["requests"] == want
