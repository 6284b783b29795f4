#!/usr/bin/env python3
"""Write src/mooring/api/types.txt from a Kubernetes source tree: API fields, types, list semantics.

Usage: generate_api_types.py KUBERNETES_SOURCE > src/mooring/api/types.txt

It reads the published OpenAPI v3 documents for names, types, required fields and merge keys, and the
published protocol buffer definitions for field numbers. No text of either is taken over.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

DOCUMENTS = [
    "api__v1",
    "apis__apps__v1",
    "apis__authentication.k8s.io__v1",
    "apis__authorization.k8s.io__v1",
    "apis__autoscaling__v1",
    "apis__batch__v1",
    "apis__coordination.k8s.io__v1",
    "apis__events.k8s.io__v1",
    "apis__networking.k8s.io__v1",
    "apis__node.k8s.io__v1",
    "apis__policy__v1",
    "apis__rbac.authorization.k8s.io__v1",
    "apis__resource.k8s.io__v1",
    "apis__scheduling.k8s.io__v1",
    "apis__storage.k8s.io__v1",
]
ROOT_NAMES = """
core.v1.Pod core.v1.Node core.v1.Namespace core.v1.PersistentVolume core.v1.PersistentVolumeClaim core.v1.Service
core.v1.ReplicationController core.v1.ConfigMap core.v1.Secret core.v1.ServiceAccount core.v1.Event core.v1.Binding
core.v1.ResourceQuota core.v1.LimitRange
apps.v1.Deployment apps.v1.ReplicaSet apps.v1.StatefulSet apps.v1.DaemonSet apps.v1.ControllerRevision batch.v1.Job
batch.v1.CronJob
authentication.v1.TokenReview authentication.v1.SelfSubjectReview authentication.v1.TokenRequest
authorization.v1.SubjectAccessReview
authorization.v1.SelfSubjectAccessReview authorization.v1.LocalSubjectAccessReview
authorization.v1.SelfSubjectRulesReview
autoscaling.v1.Scale coordination.v1.Lease events.v1.Event networking.v1.NetworkPolicy node.v1.RuntimeClass
policy.v1.PodDisruptionBudget policy.v1.Eviction
rbac.v1.Role rbac.v1.RoleBinding rbac.v1.ClusterRole rbac.v1.ClusterRoleBinding
resource.v1.ResourceClaim resource.v1.ResourceClaimTemplate resource.v1.DeviceClass resource.v1.ResourceSlice
scheduling.v1.PriorityClass storage.v1.StorageClass storage.v1.CSINode storage.v1.CSIDriver
storage.v1.CSIStorageCapacity storage.v1.VolumeAttachment meta.v1.DeleteOptions
"""
SCALARS = {
    "meta.v1.Time": "time",
    "meta.v1.MicroTime": "microtime",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intstr",
    "runtime.RawExtension": "any",
    "meta.v1.FieldsV1": "any",
}
META_NUMBERS = {
    "meta.v1.ObjectMeta": {
        "name": 1, "generateName": 2, "namespace": 3, "selfLink": 4, "uid": 5, "resourceVersion": 6, "generation": 7,
        "creationTimestamp": 8, "deletionTimestamp": 9, "deletionGracePeriodSeconds": 10, "labels": 11,
        "annotations": 12, "ownerReferences": 13, "finalizers": 14, "managedFields": 17,
    },
    "meta.v1.OwnerReference": {
        "kind": 1, "name": 3, "uid": 4, "apiVersion": 5, "controller": 6, "blockOwnerDeletion": 7,
    },
    "meta.v1.LabelSelector": {"matchLabels": 1, "matchExpressions": 2},
    "meta.v1.LabelSelectorRequirement": {"key": 1, "operator": 2, "values": 3},
    "meta.v1.DeleteOptions": {
        "gracePeriodSeconds": 1, "preconditions": 2, "orphanDependents": 3, "propagationPolicy": 4, "dryRun": 5,
        "ignoreStoreReadErrorWithClusterBreakingPotential": 6,
    },
    "meta.v1.Preconditions": {"uid": 1, "resourceVersion": 2},
    "meta.v1.Condition": {
        "type": 1, "status": 2, "observedGeneration": 3, "lastTransitionTime": 4, "reason": 5, "message": 6,
    },
    "meta.v1.ManagedFieldsEntry": {
        "manager": 1, "operation": 2, "apiVersion": 3, "time": 4, "fieldsType": 6, "fieldsV1": 7, "subresource": 8,
    },
}  # fmt: skip


def short(name: str) -> str:
    return (
        name.removeprefix("io.k8s.apimachinery.pkg.apis.")
        .removeprefix("io.k8s.apimachinery.pkg.api.")
        .removeprefix("io.k8s.apimachinery.pkg.util.")
        .removeprefix("io.k8s.apimachinery.pkg.")
        .removeprefix("io.k8s.api.")
    )


def proto_numbers(source: Path) -> dict[str, dict[str, str]]:
    """Field numbers by type and field; ``2.1`` is field 1 of an embedded message that JSON writes inline."""
    numbers = {name: {field: str(number) for field, number in of.items()} for name, of in META_NUMBERS.items()}
    embedded: list[tuple[str, str, str]] = []
    for path in sorted((source / "staging/src/k8s.io/api").glob("*/v1/generated.proto")):
        group = path.parent.parent.name
        name = ""
        for line in path.read_text().splitlines():
            if found := re.match(r"message (\w+) ", line):
                name = f"{group}.v1.{found[1]}"
                numbers.setdefault(name, {})
            elif found := re.match(r"  (?:(?:optional|repeated) ([\w.]+)|map<.*>) (\w+) = (\d+)", line):
                kind, field, number = found[1] or "", found[2], found[3]
                numbers[name][field] = number
                if kind[:1].isupper() and kind.lower() == field.lower():
                    embedded.append((name, f"{group}.v1.{kind}", number))
    for name, kind, number in embedded:
        for field, inner in numbers.get(kind, {}).items():
            numbers[name].setdefault(field, f"{number}.{inner}")
    return numbers


def type_of(prop: dict[str, Any]) -> str:
    if "allOf" in prop:
        prop = prop["allOf"][0]
    if "$ref" in prop:
        name = short(prop["$ref"].rsplit("/", 1)[1])
        return SCALARS.get(name, name)
    match prop.get("type"):
        case "array":
            return "[]" + type_of(prop["items"])
        case "object":
            return "{}" + type_of(prop["additionalProperties"]) if "additionalProperties" in prop else "any"
        case "string":
            return "bytes" if prop.get("format") == "byte" else "string"
        case "integer":
            return str(prop.get("format", "int64"))
        case "number":
            return "double"
        case "boolean":
            return "bool"
    return "any"


def main() -> None:
    source = Path(sys.argv[1])
    schemas: dict[str, Any] = {}
    for document in DOCUMENTS:
        text = (source / f"api/openapi-spec/v3/{document}_openapi.json").read_text()
        for name, schema in json.loads(text)["components"]["schemas"].items():
            schemas.setdefault(short(name), schema)
    numbers = proto_numbers(source)
    todo, done = ROOT_NAMES.split(), set()
    print("# Fields of the served API types: name, protocol buffer number, type, list and patch semantics.")
    print("# Generated from the published OpenAPI and protocol buffer definitions of Kubernetes v1.36.4 by")
    print("# scripts/generate_api_types.py; regenerate instead of editing.")
    out: dict[str, list[str]] = {}
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        schema = schemas[name]
        lines = []
        required = schema.get("required", [])
        for field, prop in schema.get("properties", {}).items():
            kind = type_of(prop)
            inner = kind.replace("[]", "").replace("{}", "")
            if "." in inner:
                todo.append(inner)
            words = [field, numbers.get(name, {}).get(field, "0"), kind]
            if (list_type := prop.get("x-kubernetes-list-type")) == "map":
                words.append("map=" + ",".join(prop["x-kubernetes-list-map-keys"]))
            elif list_type == "set":
                words.append("set")
            if prop.get("x-kubernetes-map-type") == "atomic":
                words.append("atomic")
            if key := prop.get("x-kubernetes-patch-merge-key"):
                words.append("key=" + key)
            if strategy := prop.get("x-kubernetes-patch-strategy"):
                words.append("patch=" + strategy)
            if field in required:
                words.append("required")
            lines.append(" " + " ".join(words))
        head = name + (" atomic" if schema.get("x-kubernetes-map-type") == "atomic" else "")
        out[head] = lines
    for head in sorted(out):
        print(head)
        print("\n".join(out[head]))


if __name__ == "__main__":
    main()
