"""Fields that Kubernetes does not know, and the ones that were probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api import yaml
from mooring.api.type_table import type_name, types, unknown_fields

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {anything: goes}, annotations: {a/b: c}}
spec:
  imagePullSecrets: [{name: s}]
  terminationGracePeriodSeconds: 3
  nodeSelector: {tolerationz: is a label here}
  containers:
  - name: c
    image: i
    imagePullPolicy: Always
    resources: {requests: {example.com/gpu: 1}}
    livenessProbe: {httpGet: {path: /, port: 80}}
  volumes:
  - {name: v, configMap: {name: m, items: [{key: k, path: p}]}}
"""


def found(manifest: dict[str, Any], kind: str = "Pod", version: str = "v1") -> list[str]:
    return [str(each) for each in unknown_fields(manifest, kind, version)]


def test_what_scheduling_does_not_read_is_known_all_the_same() -> None:
    assert found(yaml.load(POD)) == []


@pytest.mark.parametrize(
    ("manifest", "lines"),
    [
        pytest.param(
            {"spec": {"tolerationz": []}},
            ['unknown field "spec.tolerationz"; did you mean tolerations?'],
            id="a letter that is wrong",
        ),
        pytest.param(
            {"spec": {"nodeSelectr": {}}},
            ['unknown field "spec.nodeSelectr"; did you mean nodeSelector?'],
            id="a letter that is missing",
        ),
        pytest.param(
            {"spec": {"containers": [{}, {"resource": {}}]}},
            ['unknown field "spec.containers[1].resource"; did you mean resources?'],
            id="in the second item of a list",
        ),
        pytest.param({"zzz": 1}, ['unknown field "zzz"'], id="nothing is near"),
        pytest.param(
            {"spec": {"nodename": "a", "tolerations": [{"Key": "k"}]}},
            [
                'unknown field "spec.nodename"; did you mean nodeName?',
                'unknown field "spec.tolerations[0].Key"; did you mean key?',
            ],
            id="upper and lower case count, and every one is found",
        ),
        pytest.param({"a\nb": 1}, ['unknown field "a?b"'], id="one line even if the name has two"),
        pytest.param({"spec": 3, "metadata": [], "status": None}, [], id="wrong types are for the decoder to refuse"),
        pytest.param({"spec": {"containers": {"name": "c"}}}, [], id="so is an object where a list belongs"),
    ],
)
def test_unknown_fields_of_a_pod(manifest: dict[str, Any], lines: list[str]) -> None:
    assert found(manifest) == lines


@pytest.mark.parametrize(
    ("kind", "version", "lines"),
    [
        pytest.param("StatefulSet", "apps/v1", ['unknown field "specs"; did you mean spec?'], id="a kind of a group"),
        pytest.param(
            "PodGroup", "scheduling.x-k8s.io/v1alpha1", ['unknown field "specs"; did you mean spec?'], id="CRD"
        ),
        pytest.param("Widget", "example.com/v1", [], id="a kind that is not in the table"),
        pytest.param("Pod", "v9", [], id="a version that is not in the table"),
    ],
)
def test_kinds(kind: str, version: str, lines: list[str]) -> None:
    assert found({"specs": {}}, kind, version) == lines


@pytest.mark.parametrize(
    ("group", "version", "kind", "name"),
    [
        pytest.param("", "v1", "Pod", "core.v1.Pod", id="the core group"),
        pytest.param("storage.k8s.io", "v1", "CSINode", "storage.v1.CSINode", id="the first word of a group"),
        pytest.param("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "scheduling-x.v1alpha1.PodGroup", id="of others"),
    ],
)
def test_names_in_the_table(group: str, version: str, kind: str, name: str) -> None:
    assert type_name(group, version, kind) == name
    assert name in types()


def test_every_type_that_a_field_names_is_in_the_table() -> None:
    scalars = {"string", "bytes", "time", "microtime", "bool", "int32", "int64", "double", "quantity", "intstr", "any"}
    missing = {
        f"{described.name}.{known.name}: {known.type}"
        for described in types().values()
        for known in described.fields.values()
        if known.type.replace("[]", "").replace("{}", "") not in scalars | types().keys()
    }
    assert missing == set()
