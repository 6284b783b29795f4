"""What the API server fills in where a pod says nothing."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import msgspec

from mooring.api.quantity import NANO
from mooring.controlplane.types import quantities
from mooring.controlplane.types.objects import Object
from mooring.core.state.requests import Amounts, held_together, parse_amounts

_POD_LEVEL = ("cpu", "memory")


def default_pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        requirements = container["resources"]
        if requirements.get("limits"):
            requests = requirements.setdefault("requests", {})
            for name, value in requirements["limits"].items():
                requests.setdefault(name, value)
    _default_pod_requests(spec)


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def default_pod_spec(spec: Object) -> None:
    """Defaults of a pod spec, also inside the template of a workload."""
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
    ):
        if not spec.get(name) and spec.get(name) != 0:
            spec[name] = value
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for name in ("nodeName", "priorityClassName", "hostNetwork", "hostPID", "hostIPC"):
        if name in spec and not spec[name]:
            del spec[name]
    for name in ("tolerations", "nodeSelector", "schedulingGates", "topologySpreadConstraints", "volumes"):
        if name in spec and not spec[name]:
            del spec[name]
    for container in _containers(spec):
        _default_container(container, bool(spec.get("hostNetwork")))
    for container in spec.get("ephemeralContainers") or ():
        _default_container(container, False)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    quantities.canonicalize(spec.get("overhead"))
    quantities.canonicalize_requirements(spec.get("resources"))


def _default_container(container: Object, host_network: bool) -> None:
    requirements = container.setdefault("resources", {})
    quantities.canonicalize_requirements(requirements)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name):
            _default_probe(container[name])
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    """Always for ``latest`` and untagged images, IfNotPresent for the rest."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_probe(probe: Object) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    if probe.get("httpGet") is not None:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _default_volume(volume: Object) -> None:
    for name in ("secret", "configMap", "projected", "downwardAPI"):
        if volume.get(name) is not None:
            volume[name].setdefault("defaultMode", 420)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        claim = template.setdefault("spec", {})
        claim.setdefault("volumeMode", "Filesystem")
        quantities.canonicalize_requirements(claim.get("resources"))
    if (volume.get("emptyDir") or {}).get("sizeLimit") is not None:
        volume["emptyDir"]["sizeLimit"] = quantities.canonical(volume["emptyDir"]["sizeLimit"])
    if len(volume) == 1:
        volume["emptyDir"] = {}


def _default_pod_requests(spec: Object) -> None:
    """Pod-level requests, where only limits are given: what the containers ask for, else the limits."""
    limits = (spec.get("resources") or {}).get("limits")
    if not limits:
        return
    requests = spec["resources"].setdefault("requests", {})
    for name, value in aggregate_requests(spec).items():
        if name in _POD_LEVEL and name not in requests:
            requests[name] = quantities.formatted(value, like=_first_request(spec, name))
    for name, value in limits.items():
        if name not in requests and (name in _POD_LEVEL or name.startswith("hugepages-")):
            requests[name] = value


def _first_request(spec: Object, name: str) -> str:
    """A sum is written the way its first part is."""
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        value = ((container.get("resources") or {}).get("requests") or {}).get(name)
        if value is not None:
            return str(value)
    return ""


def aggregate_requests(spec: Object) -> dict[str, Fraction]:
    """What the containers request together."""
    init = spec.get("initContainers") or ()
    amounts = held_together(
        (_requests(container) for container in spec.get("containers") or ()),
        ((container.get("restartPolicy") == "Always", _requests(container)) for container in init),
    )
    return {name: Fraction(amount, NANO) for name, amount in amounts.items()}


def _requests(container: Object) -> Amounts:
    return parse_amounts((container.get("resources") or {}).get("requests") or {}, "resources.requests")


_encode = msgspec.json.Encoder().encode


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    pod_level = spec.get("resources")
    parts = [pod_level] if pod_level else [container.get("resources") or {} for container in _containers(spec)]
    return _qos_of(_encode(parts))


@lru_cache(maxsize=4096)
def _qos_of(encoded: bytes) -> str:
    parts = msgspec.json.decode(encoded)
    requests: dict[str, Fraction] = {}
    limits: dict[str, Fraction] = {}
    guaranteed = True
    for part in parts:
        for name, value in (part.get("requests") or {}).items():
            if name in _POD_LEVEL and quantities.parse(value) > 0:
                requests[name] = requests.get(name, Fraction(0)) + quantities.parse(value)
        found = set()
        for name, value in (part.get("limits") or {}).items():
            if name in _POD_LEVEL and quantities.parse(value) > 0:
                found.add(name)
                limits[name] = limits.get(name, Fraction(0)) + quantities.parse(value)
        guaranteed = guaranteed and len(found) == len(_POD_LEVEL)
    if not requests and not limits:
        return "BestEffort"
    if guaranteed and requests == limits:
        return "Guaranteed"
    return "Burstable"
