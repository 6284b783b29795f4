"""What a scheduler writes about pods: bindings, status patches, deletions, in kube-scheduler's words.

Status patches are strategic merge patches that carry only what changes, so that two writers of different fields do not
meet: a new condition goes whole, a known one with the fields that differ, the order of all beside it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from mooring.api.core import Pod
from mooring.api.meta import Condition
from mooring.client.errors import Conflict, ConnectionFailed, RequestTimeout, ServerError
from mooring.client.rest import STRATEGIC_MERGE_PATCH, RestClient

_PATCH_STEPS = 4
_PATCH_PAUSE_S = 0.010
_DELETE_OPTIONS = b'{"kind":"DeleteOptions","apiVersion":"v1"}'


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """The path of a pod, or of one of its subresources."""
    path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}"
    return f"{path}/{subresource}" if subresource else path


async def bind(client: RestClient, pod: Pod, node: str, *, timeout_s: float | None = None) -> None:
    """Bind a pod to a node. A ``Conflict`` says that somebody else bound it, or that it is another pod by now."""
    meta = pod.metadata
    body = {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "target": {"kind": "Node", "name": node},
    }
    path = pod_path(meta.namespace, meta.name, "binding")
    await client.create(path, msgspec.json.encode(body), timeout_s=timeout_s)


async def delete(client: RestClient, pod: Pod, *, timeout_s: float | None = None) -> None:
    """Delete a pod with its own grace period."""
    meta = pod.metadata
    await client.delete(pod_path(meta.namespace, meta.name), _DELETE_OPTIONS, timeout_s=timeout_s)


def status_patch(
    pod: Pod, *, now: str, condition: Condition | None = None, nominated_node_name: str | None = None
) -> dict[str, Any] | None:
    """Say how the status has to change; None if it is as wanted already.

    ``now`` becomes the transition time if the condition's status changes. ``nominated_node_name`` of None is left
    alone, an empty one is taken back.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        old = next((known for known in pod.status.conditions if known.type == condition.type), None)
        is_new = old is None or (old.status, old.reason, old.message) != (
            condition.status,
            condition.reason,
            condition.message,
        )
        if is_new or nominated_node_name not in (None, pod.status.nominated_node_name):
            status |= _condition_patch(pod, condition, old, now)
    if nominated_node_name is not None and nominated_node_name != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated_node_name or None
    return {"status": status} if status else None


def _condition_patch(pod: Pod, condition: Condition, old: Condition | None, now: str) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "lastTransitionTime": now if old is None or old.status != condition.status else old.last_transition_time,
        "message": condition.message,
        "observedGeneration": pod.metadata.generation,
        "reason": condition.reason,
        "status": condition.status,
    }
    if old is None:
        changed = {"lastProbeTime": None, **{key: value for key, value in wanted.items() if value not in ("", 0, None)}}
    else:
        known = {
            "lastTransitionTime": old.last_transition_time,
            "message": old.message,
            "observedGeneration": old.observed_generation,
            "reason": old.reason,
            "status": old.status,
        }
        changed = {key: value or None for key, value in wanted.items() if value != known[key]}
    if not changed:
        return {}
    patch: dict[str, Any] = {}
    if pod.status.conditions:
        order = [{"type": each.type} for each in pod.status.conditions]
        if old is None:
            order.append({"type": condition.type})
        patch["$setElementOrder/conditions"] = order
    patch["conditions"] = [{**changed, "type": condition.type}]
    return patch


async def patch_status(
    client: RestClient,
    pod: Pod,
    patch: Mapping[str, Any],
    *,
    timeout_s: float | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    rng: random.Random | None = None,
) -> None:
    """Send a status patch. A conflict, an internal error or nobody home is tried again three times, soon."""
    meta = pod.metadata
    body = msgspec.json.encode(patch)
    path = pod_path(meta.namespace, meta.name, "status")
    pause_s = _PATCH_PAUSE_S
    for attempt in range(_PATCH_STEPS):
        try:
            await client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH, timeout_s=timeout_s)
            return
        except (Conflict, ServerError, ConnectionFailed) as error:
            if attempt == _PATCH_STEPS - 1 or not _is_retriable(error):
                raise
        await sleep(pause_s * (1 + 0.1 * (rng or random).random()))
        pause_s *= 5


def _is_retriable(error: Conflict | ServerError | ConnectionFailed) -> bool:
    if isinstance(error, ServerError):
        return error.reason in ("InternalError", "ServiceUnavailable")
    if isinstance(error, ConnectionFailed):
        return not isinstance(error, RequestTimeout) and not error.was_sent
    return True
