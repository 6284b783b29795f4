"""Everything the scheduler writes to the API server, as kube-scheduler v1.36 writes it.

| what | kube-scheduler | here |
|---|---|---|
| Binding, status patches | as recorded | the same |
| a delete of a victim | by its name | by its name and uid: a StatefulSet may have made another one of that name |
| a delete of unknown outcome | has failed | sent again, so that none is in flight when the lease is released |
| volumes and their claims | PUT of its copy | GET, then PUT with the version decided on: our copies are partial |
| ResourceClaims | PUT of its copy | merge patches with uid and resourceVersion: a conflict stays a conflict |
| a Binding that was not sent | has failed | has failed |
| a Binding that was sent and got no answer, or a 5xx | has failed | the pod is looked up until that gives an answer |
| its pod has no node | | sent again, to the same node: the first one may still be on its way, and its room is taken |
| a claim's patch of unknown outcome | has failed, its devices are free | sent again: its version lets one through |
| a Binding that got a conflict | has failed | the pod is looked up: it may be bound already |
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from mooring.api.codec import decode
from mooring.api.core import Pod
from mooring.api.errors import ApiError, InputError
from mooring.api.meta import Object
from mooring.api.resource import ResourceClaim
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.core.framework.handle import NOTHING
from mooring.core.state.pod_info import PodInfo
from mooring.live.events import EventWriter, InvolvedObject
from mooring.live.logs import get_logger
from mooring.net.connect import HttpAnswer
from mooring.net.errors import Conflict, ConnectionFailed, Fenced, NotFound, ServerError, Unreachable
from mooring.net.rest import MERGE_PATCH, STRATEGIC_MERGE_PATCH, RestClient

log = get_logger("mooring.live")

T = TypeVar("T", bound=Object)
Patch = Mapping[str, Any]

PATCH_TRIES = 4
PATCH_PAUSE_S = 0.01  # times five after each try
MAX_PAUSE_S = 5.0
PATIENCE, PATIENCE_S = 100, 5.0
AGAIN_S = (0.0, 0.05, 0.25, 1.25)
"""Pauses before a Binding whose outcome is unknown is sent again. After the last one the pod is looked up once more: a
request sent before a connection broke may take that long to be carried out.
"""
DELETE_OPTIONS = b'{"kind":"DeleteOptions","apiVersion":"v1"}'
_COLLECTIONS: dict[type[Object], str] = {
    PersistentVolume: "/api/v1/persistentvolumes",
    PersistentVolumeClaim: "/api/v1/namespaces/{}/persistentvolumeclaims",
}

_encode = msgspec.json.Encoder().encode


def reference_to(pod: Pod) -> InvolvedObject:
    """Return the reference to a pod in events."""
    meta = pod.metadata
    return InvolvedObject("Pod", meta.namespace, meta.name, meta.uid, "v1", meta.resource_version)


class ApiWriter:
    """Writes through a client; implements what the framework, VolumeBinding and DynamicResources ask of a writer.

    ``pods`` has every pod as last seen by the watch, by ``namespace/name``. Every rejected request raises ApiError.
    """

    def __init__(
        self,
        client: RestClient,
        recorder: EventWriter,
        pods: Mapping[str, Pod],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        retries_binding: bool = False,
    ) -> None:
        self._client = client
        self._post_binding = self._post_again if retries_binding else client.create
        self._recorder = recorder
        self._pods = pods
        self._sleep = sleep
        # removed when there is no waiter or writer
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # ---- pods --------------------------------------------------------------------------------------------------

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str] = NOTHING) -> None:
        meta = pod.pod.metadata
        metadata: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        body = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": metadata,
            "target": {"kind": "Node", "name": node_name},
        }
        path, data = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/binding", _encode(body)
        is_open = False  # an earlier try may still be on its way
        for pause_s in AGAIN_S:
            try:
                await self._post_binding(path, data)
                return
            except ApiError as error:
                problem = error
            is_open = is_open or _is_open(problem)
            if isinstance(problem, Fenced) or not (is_open or isinstance(problem, Conflict)):
                raise problem
            if await self._is_bound(pod.pod, node_name):
                return
            if not is_open:
                raise problem
            await self._sleep(pause_s)
        if not await self._is_bound(pod.pod, node_name):
            raise problem

    async def _post_again(self, path: str, body: bytes) -> Any:
        """Post as since 1.37: retry immediately after the errors that a patch is retried after, except a conflict."""
        pause_s = PATCH_PAUSE_S
        for tries_left in range(PATCH_TRIES - 1, -1, -1):
            try:
                return await self._client.create(path, body)
            except ApiError as error:
                if not tries_left or isinstance(error, Conflict) or not _is_worth_repeating(error):
                    raise
            await self._sleep(pause_s)
            pause_s *= 5

    async def _is_bound(self, pod: Pod, node_name: str) -> bool:
        """Look the pod up after a Binding of unknown outcome; raise if it is gone or on another node."""
        found = await self._look_up(pod)
        if found.uid != pod.uid:
            raise _not_found(pod)
        if found.spec.node_name in ("", node_name):
            return bool(found.spec.node_name)
        # Another scheduler was faster. The watch will say so; the pod need not be retried before that.
        for _ in range(PATIENCE):
            known = self._pods.get(pod.key)
            if known is None or known.uid != pod.uid or known.spec.node_name:
                break
            await self._sleep(PATIENCE_S / PATIENCE)
        taken = f'pod {pod.name} is already assigned to node "{found.spec.node_name}"'
        raise Conflict(f'Operation cannot be fulfilled on pods/binding "{pod.name}": {taken}', code=409) from None

    async def _look_up(self, pod: Pod) -> Pod:
        """Read the pod, and retry until there is an answer."""
        pause_s = PATCH_PAUSE_S
        while True:
            known = self._pods.get(pod.key)
            if known is None:
                raise _not_found(pod)
            if known.uid != pod.uid or known.spec.node_name:
                return known
            try:
                answer = await self._client.get(pod_path(pod))
                found: Pod = decode(Pod, answer.body)
                return found
            except NotFound:
                raise
            except (ApiError, InputError) as trouble:
                log.info("Failed to look up whether a pod is bound; retrying", pod=pod.key, err=str(trouble))
                await self._sleep(pause_s)
                pause_s = min(MAX_PAUSE_S, pause_s * 5)

    async def patch_pod_group_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups/{name}/status"
        await self._patch(path, patch)

    async def patch_pod_status(self, namespace: str, name: str, patch: Patch) -> None:
        """Patch a status; retry immediately where upstream does: after a conflict, a 500, a 503 or a refused
        connection.
        """
        await self._patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", patch)

    async def _patch(self, path: str, patch: Mapping[str, Any]) -> None:
        body, pause_s = _encode(dict(patch)), PATCH_PAUSE_S
        for tries_left in range(PATCH_TRIES - 1, -1, -1):
            try:
                await self._client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)
                return
            except ApiError as error:
                if not tries_left or not _is_worth_repeating(error):
                    raise
            await self._sleep(pause_s)
            pause_s *= 5

    async def delete_pod(self, pod: Pod) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": pod.uid}}
        path, data = pod_path(pod), _encode(options)
        try:
            await self._until_known(lambda: self._client.delete(path, data))
        except Conflict as conflict:
            answer = await self._client.get(path)
            if decode(Pod, answer.body).uid == pod.uid:
                raise conflict
            raise _not_found(pod) from None  # another pod has its name by now

    async def _until_known(self, send: Callable[[], Awaitable[HttpAnswer]]) -> HttpAnswer:
        """Send a request that must be carried out only once, and repeat it while its outcome is unknown."""
        for pause_s in AGAIN_S:
            try:
                return await send()
            except ApiError as error:
                if isinstance(error, Fenced) or not _is_open(error):
                    raise
                problem = error
            await self._sleep(pause_s)
        raise problem

    def pod_exists(self, namespace: str, name: str) -> bool:
        return f"{namespace}/{name}" in self._pods

    # ---- volumes -----------------------------------------------------------------------------------------------

    async def update(
        self, kind: type[T], key: str, resource_version: str, mutate: Callable[[dict[str, Any]], None]
    ) -> T:
        namespace, _, name = key.rpartition("/")
        path = f"{_COLLECTIONS[kind].format(namespace)}/{name}"
        answer = await self._client.get(path)
        obj: dict[str, Any] = msgspec.json.decode(answer.body)
        metadata = obj["metadata"]
        metadata.pop("managedFields", None)
        metadata["resourceVersion"] = resource_version  # the server rejects it if the object has changed since
        mutate(obj)
        stored = await self._client.update(path, _encode(obj))
        result: T = decode(kind, stored.body)
        return result

    # ---- claims ------------------------------------------------------------------------------------------------

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim:
        body = {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", **msgspec.to_builtins(claim)}
        answer = await self._client.create(_claims_path(claim.namespace), _encode(body))
        return _claim(answer.body)

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        answer = await self._client.get(f"{_claims_path(namespace)}/{name}")
        return _claim(answer.body)

    async def patch_claim(
        self, namespace: str, name: str, patch: Patch, *, subresource: str = "", content_type: str = MERGE_PATCH
    ) -> ResourceClaim:
        """Patch a claim; repeat it while its outcome is unknown, because its devices would be neither free nor taken.

        The resource version in the patch lets only one of the repeats succeed. A conflict means that one arrived, and
        the caller finds out which.
        """
        path = f"{_claims_path(namespace)}/{name}" + (f"/{subresource}" if subresource else "")
        data = _encode(patch)
        try:
            answer = await self._until_known(lambda: self._client.patch(path, data, content_type=content_type))
            return _claim(answer.body)
        except ApiError as error:
            if isinstance(error, Fenced) or not _is_open(error):
                raise
            problem = error
        version = patch.get("metadata", {}).get("resourceVersion")
        if version is not None and (await self._look_up_claim(namespace, name)).metadata.resource_version != version:
            raise Conflict(f'resourceclaims "{name}": changed meanwhile, perhaps by us', code=409)
        raise problem

    async def _look_up_claim(self, namespace: str, name: str) -> ResourceClaim:
        """Read the claim, and retry until there is an answer."""
        pause_s = PATCH_PAUSE_S
        while True:
            try:
                return await self.get_claim(namespace, name)
            except (NotFound, Fenced):
                raise
            except (ApiError, InputError) as trouble:
                log.info("Failed to look up whether a claim is allocated; retrying", claim=name, err=str(trouble))
                await self._sleep(pause_s)
                pause_s = min(MAX_PAUSE_S, pause_s * 5)

    def turn(self, claim_key: str) -> asyncio.Lock:
        return self._turns.setdefault(claim_key, asyncio.Lock())

    async def delete_claim(self, namespace: str, name: str) -> None:
        await self._client.delete(f"{_claims_path(namespace)}/{name}", DELETE_OPTIONS)

    # ---- the rest ----------------------------------------------------------------------------------------------

    async def sleep(self, seconds: float) -> None:
        await self._sleep(seconds)

    def record_event(self, pod: Pod, type: str, reason: str, action: str, message: str) -> None:
        self._recorder.record(
            reference_to(pod),
            type=type,
            reason=reason,
            action=action,
            note=message,
            controller=pod.spec.scheduler_name,
        )


def _not_found(pod: Pod) -> NotFound:
    return NotFound(f'pods "{pod.name}" not found', code=404, reason="NotFound")


def pod_path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _claims_path(namespace: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


def _claim(body: bytes) -> ResourceClaim:
    claim: ResourceClaim = decode(ResourceClaim, body)
    return claim


def _is_open(error: ApiError) -> bool:
    """Report whether the server may have carried out a failed Binding, or may still do so."""
    return error.was_sent if isinstance(error, ConnectionFailed) else isinstance(error, ServerError)


def _is_worth_repeating(error: ApiError) -> bool:
    """Report whether a status patch is retried immediately, by upstream's rule."""
    return isinstance(error, Unreachable) or error.code in (409, 500, 503)


# --------------------------------------------------------------------------------------------------------------------
# Bindings that the API server acknowledged but the watch does not show: are they still there?
#
# A pod counts on its node from the decision until the watch confirms it. An API server that was restored from a backup
# may have lost the binding, and then no watch event will ever come.
#
# A read of the pod settles it: it is sent after the Binding was acknowledged and bypasses all caches, so a pod without
# a node has lost its binding. Lists and their versions prove no such thing.

LOOK_S = 30.0
"""A pod whose binding is unconfirmed in two consecutive checks is looked up: a watch takes milliseconds."""


class Assumptions(Protocol):
    """Owner of assumed pods: the scheduler."""

    def unconfirmed(self) -> Sequence[PodInfo]:
        """The pods with an acknowledged binding that the watch shows without a node."""
        ...

    def requeue(self, pod: PodInfo) -> None:
        """Release what the pod holds and queue it again, unless its state has changed since."""
        ...


async def watch_unconfirmed(scheduler: Assumptions, client: RestClient) -> None:
    """Check periodically, until cancelled."""
    before: dict[str, PodInfo] = {}
    while True:
        await asyncio.sleep(LOOK_S)
        now = {pod.uid: pod for pod in scheduler.unconfirmed()}
        try:
            await check_unconfirmed(
                [pod for uid, pod in now.items() if before.get(uid) is pod], client, scheduler.requeue
            )
        except Exception as error:  # a bug in mooring: it must not end the checks
            log.error(error, "Unexpected error while checking for lost bindings")
        before = now


async def check_unconfirmed(
    suspects: Sequence[PodInfo], client: RestClient, requeue: Callable[[PodInfo], None]
) -> None:
    """Read pods until one is found bound: then the watch is only late, and will show the others as well.

    A later pod may have lost its binding all the same. It is found by a later check, once the watch has shown the bound
    one. Continuing would read thousands of pods per check while a watch is late.
    """
    for suspect in suspects:
        try:
            answer = await client.get(pod_path(suspect.pod))
            found: Pod = decode(Pod, answer.body)
        except NotFound:
            continue  # the watch will say so
        except (ApiError, InputError) as error:
            log.info("Failed to look up whether a pod is still bound", pod=suspect.pod.key, err=str(error))
            return
        if found.spec.node_name:
            return
        if found.uid == suspect.uid:
            log.warning(
                "The API server lost an acknowledged binding; requeueing the pod",
                pod=suspect.pod.key,
                node=suspect.pod.spec.node_name,
            )
            requeue(suspect)
