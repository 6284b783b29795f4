"""Clusters from files or an API server, and a scheduler that answers questions about them."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from mooring.api.clock import Clock, VirtualClock
from mooring.api.core import Pod
from mooring.api.errors import InputError, OtherScheduler, warn
from mooring.api.manifests import Manifests
from mooring.api.pod_groups import PodGroup
from mooring.ask.asked_pod import Askable, AskedPod, find_group, find_pod, with_groups
from mooring.ask.quotas import quota_notes
from mooring.core.cluster import Cluster, Source, as_cluster, read_manifests
from mooring.core.config.features import Features
from mooring.core.config.versions import KubernetesVersion, nearest_version, parse_version
from mooring.core.explain.decision import Decision
from mooring.core.explain.why import Explanation, GroupExplanation, explain_group, explain_pod
from mooring.core.session import Configuration, PluginReference, Session, configuration_of, open_session, registry_with
from mooring.core.state.cluster import group_of


class SchedulerSettings(TypedDict):
    """The arguments of a scheduler besides its cluster."""

    config: Configuration
    plugins: tuple[PluginReference, ...]
    kubernetes_version: str | None


class Scheduler:
    """Decides where pods of a cluster are placed. Its clock does not advance: equal questions get equal answers."""

    def __init__(
        self,
        cluster: Cluster,
        config: Configuration = None,
        plugins: Iterable[PluginReference] = (),
        *,
        clock: Clock | None = None,
        kubernetes_version: str | None = None,
    ) -> None:
        """``plugins`` are added to the in-tree ones. A configuration enables them; without one they are enabled.

        Decisions are those of ``kubernetes_version`` (such as ``"1.37"``); without it, of the cluster's version.
        """
        self.cluster = as_cluster(cluster)
        self._config, self._plugins, self._asked_version = config, tuple(plugins), kubernetes_version
        groups = cluster.state.objects.all(PodGroup)
        features = with_groups(Features(_version(cluster, kubernetes_version)), groups)
        registry, own = registry_with(self._plugins)
        self._session = open_session(
            configuration_of(config, own, features),
            cluster.state,
            clock=clock or VirtualClock(time.time()),
            nominator=cluster.nominations,
            registry=registry,
            features=features,
            takes_all=config is None,  # the existing schedulers are unknown
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """How another process gets the same scheduler: with the configuration as it was read, and the same time."""
        config = None if self._config is None else self._session.config
        time = self._session.clock.now()
        return _scheduler_of, (self.cluster, config, self._plugins, time, self.kubernetes_version)

    @property
    def kubernetes_version(self) -> str:
        """Kubernetes version of the decisions."""
        return str(self._session.features.version)

    @property
    def session(self) -> Session:
        """The session behind it, for parts of mooring that need more than this class."""
        return self._session

    @property
    def profiles(self) -> list[str]:
        """Names of the schedulers that have a profile."""
        return list(self._session.profiles)

    def on(self, cluster: Cluster) -> Scheduler:
        """Return the same scheduler for another cluster, such as a fork."""
        other = copy(self)
        other.cluster = as_cluster(cluster)
        other._session = self._session.on(cluster.state, cluster.nominations)
        return other

    def under(self, config: Configuration = None, *, kubernetes_version: str | None = None) -> Scheduler:
        """Return a scheduler with the same cluster and plugins, under another configuration or version."""
        config = self._config if config is None else config
        version = kubernetes_version or self._asked_version
        return Scheduler(self.cluster, config, self._plugins, kubernetes_version=version)

    def without_change(self, name: str) -> Scheduler:
        """Return the same scheduler as if its version of Kubernetes lacked one change, to find what a change does."""
        now = self._session.features
        features = Features(replace(now.version, changes=now.version.changes - {name}), **now.changed())
        registry, own = registry_with(self._plugins)
        other = copy(self)
        other._session = open_session(
            configuration_of(self._config, own, features),
            self.cluster.state,
            clock=self._session.clock,
            nominator=self.cluster.nominations,
            registry=registry,
            features=features,
            takes_all=self._session.takes_all,
        )
        return other

    def settings(self) -> SchedulerSettings:
        """Return what it was made with besides the cluster, for questions that make schedulers of their own."""
        return {"config": self._config, "plugins": self._plugins, "kubernetes_version": self._asked_version}

    def decide(self, pod: Askable) -> Decision:
        """Decide about a pod, and change nothing.

        A running pod is decided as if it were new.
        """
        session, asked = self._question(pod)
        return _decided(session, asked.pod)

    def explain(self, pod: Askable) -> Explanation:
        """Decide about a pod, and explain the decision with suggestions; change nothing."""
        session, asked = self._question(pod)
        _say_who_answers(session, asked.pod)
        found = explain_pod(session, asked.pod)
        found.notes += (*asked.as_it_is, *asked.notes)
        if self.cluster.find_pod(asked.pod.key) is None:  # it would have to be created
            found.notes += quota_notes(asked.pod, self.cluster)
        if (key := group_of(asked.pod)) and session.state.objects.get(PodGroup, key) is not None:
            found.notes.append(f"the pod is scheduled with its group: mooring explain podgroup/{key} says more")
        return found

    def explain_group(self, name: str) -> GroupExplanation:
        """Decide about a pod group, ``namespace/name``, and explain the decision with suggestions; change nothing.

        Kubernetes schedules groups since 1.37.
        """
        group, pods = find_group(name if "/" in name else f"{self.cluster.namespace}/{name}", self.cluster)
        if not self._session.features["GenericWorkload"]:
            raise InputError(f"Kubernetes {self.kubernetes_version} does not schedule PodGroups; 1.37 does")
        return explain_group(self._session, group, pods)

    def place(self, pods: Askable | Iterable[Askable]) -> Iterator[Decision]:
        """Decide about pods in the given order, and commit each that has a node.

        A pod without a node is in ``cluster.pending``. Victims of preemption stay where they are.
        """
        for each in [pods] if isinstance(pods, str | Path | Mapping | Pod) else pods:
            asked = find_pod(each, self.cluster)
            warn(asked.warnings)
            running = self.cluster.find_pod(asked.pod.key)
            if running is not None and running.spec.node_name:
                raise InputError(
                    f"pod {asked.pod.key} is on {running.spec.node_name} already; "
                    "cluster.add(pod, copies=N) adds more pods like it"
                )
            self.cluster.take_over(asked.others)
            decision = _decided(self._session, asked.pod, commits=True)
            if decision.node is not None:
                self.cluster.bind(asked.pod, decision.node)  # which confirms the assumption
            elif running is None:
                self.cluster.take_over([asked.pod])
            yield decision

    def _question(self, pod: Askable) -> tuple[Session, AskedPod]:
        """Return an engine for the cluster without the pod and with the objects of its manifest, and the pod."""
        asked = find_pod(pod, self.cluster)
        warn(asked.warnings)
        there = self.cluster.find_pod(asked.pod.key)
        if not asked.others and (there is None or not self._takes_room(there)):
            return self._session, asked
        fork = self.cluster.fork().take_over(asked.others)
        if there is not None:
            fork.remove(there)
        return self._session.on(fork.state, fork.nominations), asked

    def _takes_room(self, pod: Pod) -> bool:
        return bool(pod.spec.node_name) or self.cluster.nominations.node_of(pod.uid) is not None

    def __repr__(self) -> str:
        return f"<Scheduler: {', '.join(self.profiles)}; {repr(self.cluster)[1:-1]}>"


def _scheduler_of(
    cluster: Cluster, config: Configuration, plugins: tuple[PluginReference, ...], now: float, version: str
) -> Scheduler:
    return Scheduler(cluster, config, plugins, clock=VirtualClock(now), kubernetes_version=version)


def explain(
    cluster: Cluster,
    pod: Askable,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    *,
    kubernetes_version: str | None = None,
) -> Explanation:
    """Explain why a pod is placed or not, with suggestions. The cluster stays unchanged."""
    return Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version).explain(pod)


def _decided(session: Session, pod: Pod, *, commits: bool = False) -> Decision:
    _say_who_answers(session, pod)
    decided = session.decide(pod)
    if commits and decided.node is not None:
        decided = session.commit(decided)
    return Decision(decided, session.profile_for(pod).scheduler_name, session.state)


def _say_who_answers(session: Session, pod: Pod) -> None:
    """Warn if the first profile decides about another scheduler's pod."""
    theirs, ours = pod.spec.scheduler_name, session.profile_for(pod).scheduler_name
    if theirs != ours:
        text = f"{pod.key} is for {theirs}; explained as {ours} would decide"
        warnings.warn(text, OtherScheduler, stacklevel=4)


def _version(cluster: Cluster, asked: str | None) -> KubernetesVersion:
    """Return the requested version, or the nearest to the cluster's, with a warning if they differ."""
    if asked is not None:
        return parse_version(asked, "kubernetes_version")
    version, warning = nearest_version(cluster.release)
    warn([warning] if warning else [])
    return version


# --------------------------------------------------------------------------------------------------------------------
# Clusters from files, and from a live API server.


def load(*sources: Source) -> Cluster:
    """Load a cluster from files, directories or patterns, in manifests or in kubectl's output.

    ``kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json > dump.json`` writes a file with what scheduling reads. Bytes
    are taken as the text of a manifest, a dict as a manifest. Objects of other kinds are ignored.
    """
    found = read_manifests(sources)
    warn(found.unknown_notes)
    if sources and not found.objects and not found.workloads:
        where = ", ".join(str(each) for each in sources if isinstance(each, str | Path)) or "the given manifest"
        raise InputError(
            f"{where}: found nothing that scheduling reads; {found.ignored_note or 'there is nothing in it'}"
        )
    cluster = Cluster().take_over(found.objects)
    cluster.release = found.release
    return cluster


def connect(kubeconfig: str = "", *, context: str = "") -> Cluster:
    """Read a live cluster once; nothing is written, and nothing is watched.

    Without arguments it is kubectl's cluster.
    """
    found = _run(read_live(kubeconfig, context, "python", give='a file as in mooring.connect(kubeconfig="FILE")'))
    cluster = Cluster().take_over(found.objects)
    cluster.release = found.release
    return cluster


async def read_live(kubeconfig: str, context: str, command: str, *, give: str) -> Manifests:
    """Read everything that a scheduler would see of a live cluster; ``command`` is the name in the user agent.

    ``give`` tells the user how to name a cluster, for the message if none is configured.
    """
    from mooring.core.config.features import Features
    from mooring.core.config.versions import nearest_version
    from mooring.live.informers import list_all, load_objects
    from mooring.net.errors import Forbidden, NotFound
    from mooring.net.kinds import RESOURCE_QUOTAS
    from mooring.net.kubeconfig import find_config
    from mooring.net.rest import RestClient, server_version, user_agent

    config = find_config(kubeconfig, context=context, give=give)
    client = RestClient(config, agent=user_agent("mooring", command))
    try:
        release = (await server_version(client)).release
        features = Features(nearest_version(release)[0])
        objects = await load_objects(client, features)
        with suppress(NotFound, Forbidden):  # a scheduler need not read them, only who asks about a new pod
            objects += await list_all(client, RESOURCE_QUOTAS)
        return Manifests(objects=objects, server_release=release)
    finally:
        await client.close()


def _run(reading: Any) -> Any:
    """Run a coroutine to its end, also in a notebook, where an event loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(reading)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, reading).result()
