"""Serves a mooring plugin as an extender, unchanged, for a cluster that keeps its kube-scheduler.

A scheduler sends the pod and its candidate nodes, but not the pods that run on them. So there are two ways to serve a
plugin:

| | the plugin sees | the scheduler sends |
|---|---|---|
| unwatched | the request's nodes (labels, taints, allocatable), no pods, volumes or other objects | whole nodes |
| watched | the cluster as the API server shows it, with pods | names, or whole nodes |

A watched cluster lags behind the scheduler's own: a pod that is being bound counts there immediately, and here when the
API server shows it. Scores from 0 to 100 become scores from 0 to 10.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mooring.api.clock import SystemClock
from mooring.api.core import Node, Pod
from mooring.api.errors import MooringError, PluginError
from mooring.api.meta import Object
from mooring.core.config.features import DEFAULT_FEATURES
from mooring.core.framework.cluster_event import EventResource
from mooring.core.framework.cycle_state import CycleError, CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, PreFilterResult
from mooring.core.framework.registry import Registry, ResolvedPlugin
from mooring.core.framework.runtime import judge
from mooring.core.framework.status import Code, Status
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.net.extender.requests import Body, NodeReader, WrongForm, pod_key, prepare, read_pod
from mooring.net.extender.sdk import Answerer, CallFacts, Filtered, HandlerError
from mooring.net.extender.server import ExtenderSettings, Served
from mooring.net.extender.verbs import NameOnly, OfferedNodes, encode_scores, filter_answer

MAX_NODES = 50_000  # cached; a larger number means that names are not repeated


UNSEEN = "node(s) not seen yet by the extender"


@dataclass(slots=True)
class _Request:
    pod: PodInfo
    rows: NodeRows
    names: list[str]  # of the rows
    unseen: list[str]  # offered but unknown
    nodes: OfferedNodes
    key: str


class PluginServer:
    """Holds the nodes seen so far, or a watched cluster, and asks the plugins about those of a request."""

    def __init__(
        self, plugins: Sequence[type], arguments: dict[str, Any] | None = None, *, is_watched: bool = False
    ) -> None:
        self.cluster = ClusterState()
        self._is_watched = is_watched
        self._reader = NodeReader(NameOnly if is_watched else Node)
        prepare(Pod)
        self._seen: dict[str, Node] = {}
        self._lock = threading.Lock()  # serialises access to plugins and columns
        handle = Handle(self.cluster, SystemClock(), features=DEFAULT_FEATURES)
        self.plugins: list[ResolvedPlugin] = []
        registry = Registry()
        for plugin in plugins:
            try:
                name = registry.register(plugin)
                self.plugins.append(registry.make(name, (arguments or {}).get(name), handle))
            except MooringError as error:
                raise PluginError(f"plugin {plugin.__qualname__}: {error}") from None
        self.filters = [plugin for plugin in self.plugins if plugin.points & {"filter", "preFilter"}]
        self.scorers = [plugin for plugin in self.plugins if "score" in plugin.points]
        points = {point for plugin in self.plugins for point in plugin.points}
        unserved = sorted(points - {"preFilter", "filter", "preScore", "score"})
        if not self.filters and not self.scorers:
            raise PluginError(
                f"an extender has filter and prioritize; the plugin has only {', '.join(unserved)}, "
                "which work inside a scheduler alone"
            )
        self.left_out = unserved

    @property
    def resources(self) -> set[EventResource]:
        """Return the kinds that the plugins register for."""
        asked = (plugin.events_to_register() for plugin in self.plugins if plugin.events_to_register is not None)
        return {registration.event.resource for registrations in asked for registration in registrations}

    def served(self, weight: int = 1) -> Served:
        """Return the verbs that the plugins can answer."""
        verbs: dict[str, Answerer] = {}
        if self.filters:
            verbs["filter"] = self._filter
        if self.scorers:
            verbs["prioritize"] = self._prioritize
        name = "+".join(str(plugin.name) for plugin in self.plugins)
        return Served(ExtenderSettings(name=name, weight=weight, node_cache_capable=self._is_watched), verbs)

    # ---- the watched cluster, called by informers ---------------------------------------------------------------

    def put(self, obj: Object) -> None:
        with self._lock:
            self.cluster.put(obj)

    def update(self, old: Object, new: Object) -> None:
        with self._lock:
            if isinstance(old, Pod) and old.uid != new.uid:
                self.cluster.remove_pod(old.uid)  # deleted and recreated under the same name
            self.cluster.put(new)

    def delete(self, obj: Object) -> None:
        with self._lock:
            if isinstance(obj, Pod):
                self.cluster.remove_pod(obj.uid)
            elif isinstance(obj, Node):
                self.cluster.remove_node(obj.name)
            else:
                self.cluster.objects.remove(type(obj), obj.key)

    # ---- verbs -------------------------------------------------------------------------------------------------

    def _filter(self, body: Body) -> tuple[bytes, CallFacts]:
        with self._lock:
            request = self._read(body)
            state = CycleState()
            try:
                statuses = self._judge(state, request)
            except CycleError as error:
                raise HandlerError(str(error)) from None
        keep = [name for name, status in zip(request.names, statuses, strict=True) if status.is_success]
        refused: dict[str, str] = {}
        for_good: dict[str, str] = {}
        for name, status in zip(request.names, statuses, strict=True):
            if not status.is_success:
                found = for_good if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else refused
                found[name] = status.message
        refused |= dict.fromkeys(request.unseen, UNSEEN)
        nodes = request.nodes
        answer = filter_answer(Filtered(keep, refused, for_good), nodes.raw, by_name=nodes.are_names)
        return answer, CallFacts(request.key, len(nodes.names), len(keep))

    def _judge(self, state: CycleState, request: _Request) -> list[Status]:
        """Return one status per node: that of the first plugin that rejects it."""
        statuses = [Status()] * len(request.names)
        still = np.ones(len(request.names), np.bool_)

        def refuse(positions: Sequence[int], status: Callable[[int], Status]) -> None:
            for i in positions:
                statuses[i] = status(i)
                still[i] = False

        for plugin in self.filters:
            if not self._pre_filter(plugin, state, request, still, refuse) or not still.any():
                continue
            if "filter" not in plugin.points:
                continue
            verdict = judge(plugin, state, request.pod, request.rows, lambda: still)
            if verdict is not None:
                ids = verdict.ids
                refused = np.flatnonzero(still & (ids != 0)).tolist()
                refuse(refused, lambda i, v=verdict, n=ids: v.status_of(int(n[i])))  # type: ignore[misc]
        return statuses

    @staticmethod
    def _pre_filter(
        plugin: ResolvedPlugin, state: CycleState, request: _Request, still: Any, refuse: Callable[..., None]
    ) -> bool:
        """Run a PreFilter, if there is one; report whether Filter is to run."""
        if "preFilter" not in plugin.points:
            return True
        found = plugin.pre_filter(state, request.pod, request.rows)
        if isinstance(found, PreFilterResult):
            left = Status.unresolvable(f"node(s) didn't satisfy plugin {plugin.name}")
            others = [i for i, name in enumerate(request.names) if still[i] and name not in found.node_names]
            refuse(others, lambda i: left)
            return True
        if found.is_skip:
            return False
        if found.is_rejected:
            refuse(np.flatnonzero(still).tolist(), lambda i: found)
            return False
        if not found.is_success:
            raise HandlerError(f'running PreFilter plugin "{plugin.name}": {found.message}')
        return True

    def _prioritize(self, body: Body) -> tuple[bytes, CallFacts]:
        with self._lock:
            request = self._read(body)
            state = CycleState()
            totals = np.zeros(len(request.names), np.int64)
            for plugin in self.scorers:
                totals += self._score(plugin, state, request)
        largest = MAX_NODE_SCORE * len(self.scorers)
        scaled = (totals * 10 + largest // 2) // largest
        answer = encode_scores(request.names, scaled.tolist())
        return answer, CallFacts(request.key, len(request.names), len(request.names))

    @staticmethod
    def _score(plugin: ResolvedPlugin, state: CycleState, request: _Request) -> Any:
        if "preScore" in plugin.points:
            status = plugin.pre_score(state, request.pod, request.rows)
            if status.is_skip:
                return 0
            if not status.is_success:
                raise HandlerError(f'running PreScore plugin "{plugin.name}": {status.message}')
        scores = plugin.score(state, request.pod, request.rows)
        if scores is None:
            return 0
        if plugin.normalize is not None:
            scores = plugin.normalize(state, request.pod, scores, request.rows)
        low, high = int(scores.min(initial=0)), int(scores.max(initial=0))
        if low < 0 or high > MAX_NODE_SCORE:
            bad = low if low < 0 else high
            raise HandlerError(
                f'plugin "{plugin.name}" returns an invalid score {bad}, it should in the range of '
                f"[0, {MAX_NODE_SCORE}] after normalizing"
            )
        return scores

    # ---- nodes -------------------------------------------------------------------------------------------------

    def _read(self, body: Body) -> _Request:
        try:
            nodes = OfferedNodes(body, self._reader, str if self._is_watched else Node)
        except WrongForm:
            raise WrongForm(
                "NodeNames without Nodes: a plugin reads whole nodes unless it is served with --watch; "
                "set nodeCacheCapable: false"
            ) from None
        pod: Pod = read_pod(nodes.pod)
        if not self._is_watched:
            self._take(nodes)
        table = self.cluster.nodes().table
        known = table.nodes
        names = [name for name in nodes.names if name in known]
        unseen = [] if len(names) == len(nodes.names) else [name for name in nodes.names if name not in known]
        index = np.fromiter((known[name].row for name in names), np.int64, len(names))
        return _Request(self.cluster.info(pod), NodeRows(table, index), names, unseen, nodes, pod_key(nodes.pod))

    def _take(self, nodes: OfferedNodes) -> None:
        """Cache the nodes of a request."""
        if len(self._seen) > MAX_NODES:
            for name in self._seen:
                self.cluster.remove_node(name)
            self._seen.clear()
        for name, node in zip(nodes.names, nodes.views, strict=True):
            if self._seen.get(name) is not node:
                self.cluster.set_node(node)
                self._seen[name] = node


# --------------------------------------------------------------------------------------------------------------------
# The configuration with which a kube-scheduler calls an extender.


def entry_for(
    served: Served, url: str, *, ca_file: str = "", cert_file: str = "", key_file: str = ""
) -> dict[str, Any]:
    """Return an entry of ``extenders`` with the supported verbs and the extender's settings."""
    settings = served.settings
    entry: dict[str, Any] = {"urlPrefix": url.rstrip("/")}
    for verb in served.verbs:
        entry[f"{verb}Verb"] = verb
    if "prioritize" in served.verbs:
        entry["weight"] = settings.weight
    if url.startswith("https:"):
        entry["enableHTTPS"] = True
        files = {"caFile": ca_file, "certFile": cert_file, "keyFile": key_file}
        if any(files.values()):
            entry["tlsConfig"] = {field: file for field, file in files.items() if file}
    if settings.node_cache_capable:
        entry["nodeCacheCapable"] = True
    if settings.ignorable:
        entry["ignorable"] = True
    if settings.http_timeout:
        entry["httpTimeout"] = settings.http_timeout
    if settings.managed_resources:
        entry["managedResources"] = [
            {"name": name, **({"ignoredByScheduler": True} if settings.ignored_by_scheduler else {})}
            for name in settings.managed_resources
        ]
    return entry


def configuration_for(served: Served, url: str, **files: str) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration with only this extender."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [entry_for(served, url, **files)],
    }
