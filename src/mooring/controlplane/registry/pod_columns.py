"""A pod's READY, STATUS and RESTARTS: the aggregate that people read first."""

from __future__ import annotations

from typing import Any

from mooring.controlplane.types.objects import Object


def _state(container: Object, name: str) -> Any:
    return (container.get("state") or {}).get(name)


def _sidecars(pod: Object) -> set[str]:
    containers = (pod.get("spec") or {}).get("initContainers") or ()
    return {container.get("name", "") for container in containers if container.get("restartPolicy") == "Always"}


def pod_ready(pod: Object, _: float) -> str:
    sidecars = _sidecars(pod)
    status = pod.get("status") or {}
    total = len((pod.get("spec") or {}).get("containers") or ()) + len(sidecars)
    ready = sum(1 for c in status.get("containerStatuses") or () if c.get("ready") and _state(c, "running") is not None)
    ready += sum(
        1
        for c in status.get("initContainerStatuses") or ()
        if c.get("name") in sidecars and c.get("started") and c.get("ready")
    )
    return f"{ready}/{total}"


def pod_restarts(pod: Object, _: float) -> str:
    status = pod.get("status") or {}
    sidecars = _sidecars(pod)
    count = sum(c.get("restartCount", 0) for c in status.get("containerStatuses") or ())
    count += sum(
        c.get("restartCount", 0) for c in status.get("initContainerStatuses") or () if c.get("name") in sidecars
    )
    return str(count)


def pod_status(pod: Object, _: float) -> str:
    status = pod.get("status") or {}
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    conditions = status.get("conditions") or ()
    if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in conditions):
        reason = "SchedulingGated"
    initializing, shown = _init_reason(pod)
    if initializing:
        reason = shown
    initialized = any(c.get("type") == "Initialized" and c.get("status") == "True" for c in conditions)
    if not initializing or initialized:
        reason = _container_reason(status, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(reason)


def _init_reason(pod: Object) -> tuple[bool, str]:
    sidecars = _sidecars(pod)
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for i, container in enumerate((pod.get("status") or {}).get("initContainerStatuses") or ()):
        terminated, waiting = _state(container, "terminated"), _state(container, "waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        if terminated is not None:
            return True, f"Init:{_terminated(terminated)}"
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return True, f"Init:{waiting['reason']}"
        return True, f"Init:{i}/{total}"
    return False, ""


def _terminated(state: Object) -> str:
    if state.get("reason"):
        return str(state["reason"])
    if state.get("signal"):
        return f"Signal:{state['signal']}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def _container_reason(status: Object, reason: str) -> str:
    running, failure = False, ""
    for container in reversed(status.get("containerStatuses") or []):
        waiting, terminated = _state(container, "waiting"), _state(container, "terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _terminated(terminated)
            if terminated.get("exitCode"):
                failure = reason
        elif container.get("ready") and _state(container, "running") is not None:
            running = True
    if reason == "Completed":
        ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
        if running and ready:
            return "Running"
        return failure or ("NotReady" if running else reason)
    return reason
