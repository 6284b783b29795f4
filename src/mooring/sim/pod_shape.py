"""The shape of a workload's pods: what they ask for and where they may go, as fields with ``{column}`` in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.api.defaults import set_default_meta
from mooring.api.meta import ObjectMeta
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.meta import is_label, is_subdomain
from mooring.errors import InputError
from mooring.sim.admissible import check_admissible
from mooring.sim.objects import taint
from mooring.sim.rows import columns_in, filler
from mooring.sim.step_fields import mapping, texts

FIELDS = {"name", "namespace", "cpu", "memory", "requests", "labels", "annotations", "priority", "priorityClassName",
          "nodeSelector", "tolerations", "schedulerName", "spec"}  # fmt: skip
SIMPLE = ("name", "namespace", "cpu", "memory", "priority", "priorityClassName", "schedulerName")
"""Fields that are one text: a column of that name fills them in."""
IMAGE = "registry.k8s.io/pause:3.10"

Admit = Callable[[Pod], None]


class PodShape:
    """Makes pods. Those that differ only by name share everything else."""

    def __init__(self, fields: Mapping[str, Any], *, default_name: str) -> None:
        self._fields = dict(fields)
        pattern = str(self._fields.pop("name", default_name))
        self._namespace = filler(str(self._fields.pop("namespace", "") or "default"))
        for name in ("requests", "labels", "annotations", "nodeSelector", "spec"):
            mapping(self._fields.get(name), name)
        for each in texts(self._fields.get("tolerations", []), "tolerations"):
            _toleration(each)
        self.columns = columns_in(self._fields) | columns_in(pattern) | columns_in(str(fields.get("namespace", "")))
        self._kind_columns = sorted(columns_in(self._fields) - {"i"})
        self._is_numbered = "i" in columns_in(self._fields)
        self._name, self._fill = filler(pattern), filler(self._fields)
        self._kinds: dict[tuple[str, ...], Pod] = {}
        self._spaces: set[str] = set()

    def pod(self, row: Mapping[str, str], admit: Admit) -> Pod:
        """The pod of a row; ``admit`` completes it as an API server would."""
        columns = self._kind_columns
        key = tuple([row[name] for name in columns])
        kind = self._kinds.get(key)
        if kind is None or self._is_numbered:
            kind = self._made(self._fill(row), admit)
            self._kinds[key] = kind
        name, space = self._name(row), self._namespace(row) or "default"
        if not is_subdomain(name):
            raise InputError(f"name: expected lower case letters, digits, '-' and '.', found {name!r}")
        if space not in self._spaces:
            if not is_label(space):
                raise InputError(f"namespace: expected lower case letters, digits and '-', found {space!r}")
            self._spaces.add(space)
        meta = kind.metadata
        pod = kind.__copy__()
        pod.metadata = ObjectMeta(
            name=name, namespace=space, uid=f"pod:{space}/{name}", labels=meta.labels, annotations=meta.annotations
        )
        return pod

    @staticmethod
    def _made(fields: Mapping[str, Any], admit: Admit) -> Pod:
        made = manifest(fields)
        pod: Pod = from_plain(Pod, made)
        check_admissible(PODS, made, pod)
        set_default_meta(pod)
        admit(pod)
        return pod


def manifest(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A pod with these fields, as a manifest."""
    spec: dict[str, Any] = {**mapping(fields.get("spec"), "spec")}
    requests = {
        **{name: fields[name] for name in ("cpu", "memory") if fields.get(name)},
        **{name: each for name, each in mapping(fields.get("requests"), "requests").items() if str(each) != "0"},
    }
    containers = [dict(each) for each in spec.get("containers") or [{"name": "main", "image": IMAGE}]]
    if requests:
        resources = dict(containers[0].get("resources") or {})
        resources["requests"] = {**(resources.get("requests") or {}), **requests}
        extended = {name: each for name, each in requests.items() if "/" in name}
        if extended:
            resources["limits"] = {**(resources.get("limits") or {}), **extended}  # an API server wants both
        containers[0]["resources"] = resources
    spec["containers"] = containers
    for name in ("priorityClassName", "schedulerName"):
        if fields.get(name):
            spec[name] = str(fields[name])
    if str(fields.get("priority", "")):
        spec["priority"] = _whole(fields["priority"], "priority")
    if fields.get("tolerations"):
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *map(_toleration, fields["tolerations"])]
    _select_nodes(spec, mapping(fields.get("nodeSelector"), "nodeSelector"))
    meta: dict[str, Any] = {"name": "pod", "namespace": "default"}
    for name in ("labels", "annotations"):
        if fields.get(name):
            meta[name] = {key: str(each) for key, each in mapping(fields[name], name).items()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _select_nodes(spec: dict[str, Any], labels: Mapping[str, Any]) -> None:
    """One value is a node selector; several, with | between them, are a required node affinity."""
    several = {key: str(each).split("|") for key, each in labels.items() if "|" in str(each)}
    single = {key: str(each) for key, each in labels.items() if key not in several and str(each)}
    if single:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **single}
    if not several:
        return
    if (spec.get("affinity") or {}).get("nodeAffinity"):
        raise InputError("nodeSelector: several values and spec.affinity.nodeAffinity exclude each other")
    terms = [{"key": key, "operator": "In", "values": values} for key, values in several.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    spec["affinity"] = {**(spec.get("affinity") or {}), "nodeAffinity": affinity}


def _toleration(text: str) -> dict[str, Any]:
    """``key=value:Effect``, or ``key:Effect`` for any value; as taints are written."""
    if "{" in text:
        return {}
    wanted = taint(text)
    return {**wanted, "operator": "Equal" if "value" in wanted else "Exists"}


def _whole(value: Any, name: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise InputError(f"{name}: expected a whole number, found {value!r}") from None
    if not -(2**31) <= number < 2**31:
        raise InputError(f"{name}: expected a whole number of 32 bits, found {value!r}")
    return number
