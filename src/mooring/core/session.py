"""The session: a cluster and its scheduler. Everything that needs a decision asks a session.

```
open_session(configuration, cluster) ─▶ Session ─▶ decide ─▶ Decision ─▶ commit ─▶ the next pod sees it
                                          │                                └─▶ undo
                                          └─▶ fork: the same, for a question that begins with "what if"
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from mooring.api.clock import Clock, SystemClock
from mooring.api.core import Pod
from mooring.api.errors import ConfigError, InputError, MooringError, warn
from mooring.api.meta import Object
from mooring.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.load import config_from_dict, enabling, examine, load_config_file, unused
from mooring.core.config.plugin_loading import load_installed, load_plugins
from mooring.core.config.profile import IN_TREE_POINTS, Expanded, effective_args, expand_all, with_ignored_resources
from mooring.core.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from mooring.core.engine.cycle import Engine, hold, release
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.extenders import Extenders
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.engine.pod_groups import GroupCycle, GroupPreemption
from mooring.core.engine.preemption import Evaluator
from mooring.core.engine.victims import count_disruptions
from mooring.core.framework.extender import AskAll, ExtenderClient, ask_in_turn
from mooring.core.framework.handle import Devices, Handle, NoDevices, Nominations, Nominator, put_object, remove_object
from mooring.core.framework.registry import Registry, ResolvedPlugin
from mooring.core.framework.runtime import Profile, run_pre_enqueue
from mooring.core.plugins.volume_binding import chosen_volumes
from mooring.core.plugins.volumes.bind_volumes import bound_to
from mooring.core.plugins.volumes.claims import BIND_COMPLETED, SELECTED_NODE
from mooring.core.queue.profile import QueueProfile, from_runtime
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo

_COMMITTED = "Session/committed"  # key in a decision's state: what ``undo`` has to restore

_Open = Callable[[ClusterState, Nominator, Devices, Clock, bool], "Session"]


def decide(engine: Engine, profile: Profile, pod: PodInfo, *, detail: bool = True) -> ScheduleResult:
    """Decide about a new pod. One that a PreEnqueue plugin holds back is gated, without an attempt."""
    held = run_pre_enqueue(profile.pre_enqueue, pod.pod)
    if held.is_success:
        return engine.decide(pod, profile, detail=detail)
    return ScheduleResult(pod, Outcome.GATED, status=held, num_nodes=len(engine.cluster.nodes()))


@dataclass(slots=True)
class Session:
    """A cluster, its nominations, and an engine with the profiles of a configuration.

    Only a session builds an engine or a profile, chooses the profile of a pod, and commits decisions. Plugins belong to
    the cluster that they are created for, so a fork has its own.
    """

    state: ClusterState
    nominations: Nominator
    engine: Engine
    profiles: dict[str, Profile]  # by scheduler name
    handle: Handle
    config: KubeSchedulerConfiguration
    features: Features
    clock: Clock
    takes_all: bool  # whether the first profile also decides for unknown schedulers
    _open: _Open
    broken_budgets: set[str] = field(default_factory=set)  # broken by disruptions in this session

    # ---- other sessions ----------------------------------------------------------------------------------------

    def fork(self) -> Session:
        """Return a fork; later changes of one session do not affect the other.

        A fork is for questions about a whole cluster, whose pods may be of any scheduler: the first profile also
        decides for unknown schedulers.
        """
        return self._open(self.state.fork(), self.nominations.copy(), self.handle.devices, self.clock, True)

    def on(self, state: ClusterState, nominations: Nominator | None = None, clock: Clock | None = None) -> Session:
        """Return the same scheduler for another cluster, such as a fork of this one."""
        nominations = nominations or self.nominations
        return self._open(state, nominations, self.handle.devices, clock or self.clock, self.takes_all)

    def engine_for_hypotheses(self) -> Engine:
        """Return an engine without batching, so that a hypothesis does not reuse the result of an equal pod."""
        return Engine(self.state, self.nominations, batches=False)

    # ---- the cluster -------------------------------------------------------------------------------------------

    def put(self, obj: Object) -> None:
        """Add or update an object. A pending pod is nominated to the node in its status."""
        put_object(self.state, self.nominations, obj)

    def remove(self, obj: Object) -> None:
        """Remove an object; a missing one is ignored."""
        remove_object(self.state, self.nominations, obj)

    def info(self, pod: Pod) -> PodInfo:
        """Return the shape and class of a pod that is not counted."""
        return self.state.info(pod)

    # ---- deciding ----------------------------------------------------------------------------------------------

    def profile_for(self, pod: Pod) -> Profile:
        """Return the profile that the pod asks for.

        For an unknown scheduler, the first profile is used if the session ``takes_all``; otherwise an InputError lists
        the known ones.
        """
        profile = self.profiles.get(pod.spec.scheduler_name)
        if profile is None:
            if not self.takes_all:
                raise InputError(
                    f"Pod {pod.key}: spec.schedulerName: no profile for {pod.spec.scheduler_name!r}; "
                    f"the configuration has {', '.join(self.profiles)}"
                )
            profile = next(iter(self.profiles.values()))
        return profile

    def decide(self, pod: Pod | PodInfo, *, detail: bool = True) -> ScheduleResult:
        """Decide about a new pod, and change nothing."""
        info = self.state.info(pod) if isinstance(pod, Pod) else pod
        return decide(self.engine, self.profile_for(info.pod), info, detail=detail)

    def groups(self, profile: Profile) -> GroupCycle:
        """Return the cycle that decides about pod groups with this profile."""
        return _group_cycle(self, profile, self.handle)

    # ---- committing -----------------------------------------------------------------------------------------------

    def place(self, pod: PodInfo, *, preempt: bool = False) -> ScheduleResult:
        """Decide about a new pod, and count it on its node if it has one.

        With ``preempt`` the victims of a preemption are removed, and the pod is retried, nominated to the node. The
        returned decision has the victims and the node.
        """
        decision = self.decide(pod, detail=False)
        if preempt and decision.victims and decision.nominated_node:
            decision = self._preempt(pod, decision)
        return decision if decision.node is None else self.commit(decision)

    def commit(self, decision: ScheduleResult) -> ScheduleResult:
        """Commit a decision: later ones see its resources, volumes and devices as taken.

        The pod's nomination ends, it is assumed, plugins reserve, and its claims are bound as the volume controller
        would. If a plugin rejects it, nothing has changed, and the returned decision has the reason.
        """
        pod, nominated = decision.pod, self.nominations.node_of(decision.pod.uid)
        held = hold(self.state, self.profile_for(pod.pod), decision)
        if held.node is not None:
            self.nominations.withdraw(pod.uid)
            written = self._bind_volumes(decision, held.node) if pod.shape.volumes else []
            decision.state.write(_COMMITTED, (nominated, written))
        return held

    def undo(self, decision: ScheduleResult) -> None:
        """Undo a commit. Victims of a preemption are not restored."""
        placed = self.state.pod(decision.pod.uid)
        assert placed is not None, "it was committed"
        nominated, written = decision.state.read(_COMMITTED)
        for before, after in reversed(written):
            if self.state.objects.get(type(after), after.key) is after:  # otherwise it was changed since
                self.state.objects.put(before)
        release(self.state, self.profile_for(placed.pod), decision.state, placed)
        if nominated:
            self.nominations.nominate(decision.pod, nominated)

    def assume(self, pod: PodInfo, node: str) -> PodInfo:
        """Run the first step of a commit: end the nomination, and count the pod on its node.

        The live scheduler continues with Reserve and Permit; ``release`` undoes it, as in ``undo``. Raises ValueError
        for a pod that is already counted.
        """
        assumed = self.state.assume(pod, node)
        self.nominations.withdraw(assumed.uid)
        return assumed

    def evict(self, pod: PodInfo) -> None:
        """Remove a pod, and count a disruption for its budgets."""
        self.state.remove_pod(pod.uid)
        self.broken_budgets.update(count_disruptions(self.state.objects, [pod.pod]))

    def lose(self, nodes: Sequence[str]) -> None:
        """Remove nodes, what is nominated to them, and their pods, which count as disruptions."""
        for node in nodes:
            for waiting in list(self.nominations.nominated_pods(node)):
                self.nominations.withdraw(waiting.uid)
            self.state.objects.remove(CSINode, node)
        pods = self.state.remove_nodes(nodes)
        self.broken_budgets.update(count_disruptions(self.state.objects, [info.pod for info in pods]))

    def _preempt(self, pod: PodInfo, decision: ScheduleResult) -> ScheduleResult:
        node = decision.nominated_node or ""
        for victim in decision.victims:
            self.evict(victim)
        for other in list(self.nominations.nominated_pods(node)):
            if other.priority < pod.priority:  # preemption withdraws these, so that they are tried elsewhere
                self.nominations.withdraw(other.uid)
        nominated = PodInfo(_nominated(pod.pod, node), pod.shape, pod.cls)
        again = self.engine.decide(nominated, self.profile_for(pod.pod), detail=False)
        again.pod, again.victims = pod, decision.victims
        return again

    def _bind_volumes(self, decision: ScheduleResult, node: str) -> list[tuple[Object, Object]]:
        """Bind claims to their volumes in the cluster: a fork sees that, but not what plugins hold in memory.

        Return the replaced objects, each with its replacement.
        """
        objects = self.state.objects
        written: list[tuple[Object, Object]] = []
        for key, chosen in chosen_volumes(decision.state, node).items():
            old = objects.get(PersistentVolumeClaim, key)
            assert old is not None, "volumes were chosen for it"
            claim = deepcopy(old)
            volume = objects.get(PersistentVolume, chosen.get("volume", ""))
            if volume is None:
                claim.metadata.annotations[SELECTED_NODE] = node
            else:
                bound = deepcopy(bound_to(volume, claim)[0])
                bound.status.phase = claim.status.phase = "Bound"
                claim.spec.volume_name = volume.name
                claim.metadata.annotations[BIND_COMPLETED] = "yes"
                objects.put(bound)
                written.append((volume, bound))
            objects.put(claim)
            written.append((old, claim))
        return written

    # ---- the queue ------------------------------------------------------------------------------------------------

    def queue_profiles(self) -> list[QueueProfile]:
        """Return the queue's view of the profiles."""
        has_extenders = bool(self.handle.extenders)
        implies_taints = not self.features["TaintsWakeOnlyWhoAsks"]
        splits_pod_events = self.features["EventsTellTargetPods"]
        return [
            from_runtime(
                profile, has_extenders=has_extenders, implies_taints=implies_taints, splits_pod_events=splits_pod_events
            )
            for profile in self.profiles.values()
        ]


def _nominated(pod: Pod, node: str) -> Pod:
    again = copy(pod)
    again.status = copy(pod.status)
    again.status.nominated_node_name = node
    return again


def _group_cycle(session: Session, profile: Profile, handle: Handle) -> GroupCycle:
    by_placement = session.features["TopologyAwareWorkloadScheduling"]
    return GroupCycle(session.engine, profile, handle, by_placement=by_placement)


# --------------------------------------------------------------------------------------------------------------------
# From a configuration to a session: the only place that creates engines, handles and profiles.


def open_session(
    config: KubeSchedulerConfiguration,
    state: ClusterState,
    *,
    clock: Clock | None = None,
    nominator: Nominator | None = None,
    registry: Registry | None = None,
    features: Features = DEFAULT_FEATURES,
    prepare: Callable[[Handle], None] | None = None,
    extenders: Sequence[ExtenderClient] = (),
    ask_all: AskAll = ask_in_turn,
    takes_all: bool = False,
) -> Session:
    """Build every profile, or raise ConfigError with upstream's texts.

    ``extenders`` implement the configuration's entries and are created by the caller; without them only
    ``ignoredByScheduler`` is honoured. ``prepare`` completes each handle before plugins are created with it.
    """
    registry = registry or in_tree_registry()
    config = with_ignored_resources(config)
    expanded = expand_all(config, registry.points(), version=features.version)

    def open_on(state: ClusterState, nominator: Nominator, devices: Devices, clock: Clock, takes_all: bool) -> Session:
        handle = Handle(state, clock, nominator, features, devices=devices)
        handle.extenders = tuple(extenders)
        if prepare is not None:
            prepare(handle)
        registry.prepare(handle)
        engine = Engine(
            state,
            nominator,
            clock=clock,
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            extenders=_extenders(handle, ask_all),
            batches=features["OpportunisticBatching"],
            rescores=features["BatchingRescoresTheLastNode"],
        )
        session = Session(state, nominator, engine, {}, handle, config, features, clock, takes_all, open_on)
        handle.fork = session.fork
        for profile in config.profiles:
            name = profile.scheduler_name
            session.profiles[name] = _build_profile(session, profile, expanded[name], registry)
        return session

    state.count_resizes(whole=features["ResizesCountWholePods"])
    return open_on(state, nominator or Nominations(), NoDevices(), clock or SystemClock(), takes_all)


def _extenders(handle: Handle, ask_all: AskAll) -> Extenders | None:
    if not handle.extenders:
        return None
    return Extenders(handle.extenders, pick=handle.pick, ask_all=ask_all)


def _build_profile(
    session: Session, profile: KubeSchedulerProfile, points: Mapping[str, list[tuple[str, int]]], registry: Registry
) -> Profile:
    handle = replace(session.handle)  # each profile's plugins share one; preemption needs its own profile's filters
    handle.points = {point: frozenset(name for name, _ in enabled) for point, enabled in points.items()}
    names = dict.fromkeys(name for enabled in points.values() for name, _ in enabled)
    plugins = {name: _make(profile, name, registry, handle, session.features) for name in names}
    built = Profile(profile.scheduler_name, profile.percentage_of_nodes_to_score, plugins, points)

    def on_fork(state: ClusterState) -> GroupCycle:
        there = session.on(state)
        return _group_cycle(there, there.profiles[profile.scheduler_name], handle)

    handle.preemption = Evaluator(built, session.engine, handle, GroupPreemption(handle, on_fork))
    return built


def _make(
    profile: KubeSchedulerProfile, name: str, registry: Registry, handle: Handle, features: Features
) -> ResolvedPlugin:
    try:
        return registry.make(name, effective_args(profile, name, features), handle)
    except MooringError as error:
        problems = error.problems if isinstance(error, ConfigError) else (str(error),)
        prefix = f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}: "
        raise ConfigError(*(f'{prefix}initializing plugin "{name}": {problem}' for problem in problems)) from None


# --------------------------------------------------------------------------------------------------------------------
# Complete checks of a configuration document: ``mooring config check``, and the page.


@dataclass(slots=True)
class Checked:
    """Result of a check. Without problems the configuration is usable."""

    config: KubeSchedulerConfiguration | None = None
    expanded: dict[str, Expanded] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: tuple[str, ...] = ()


def check_configuration(
    document: dict[str, Any],
    have: Registry,
    features: Features,
    *,
    assumed: Mapping[str, frozenset[str]] | None = None,
    makes_plugins: bool = False,
) -> Checked:
    """Find every mistake. ``assumed`` plugins run at these points; ``makes_plugins`` creates all once, because only a
    user's own plugins can check their arguments.
    """
    found = Checked()
    registry = {**_points(have), **(assumed or {})}
    try:
        loaded, found.problems = examine(document, features)
        found.config, found.warnings = loaded.config, loaded.warnings
        found.expanded = expand_all(loaded.config, registry, version=features.version)
        if makes_plugins and not found.problems:
            open_session(loaded.config, ClusterState(), registry=have, features=features)
    except ConfigError as error:
        found.problems += error.problems
    except MooringError as error:
        found.problems.append(str(error))
    return found


def _points(have: Registry) -> dict[str, frozenset[str]]:
    """Return where plugins can run."""
    ours = {name: points for name, points in have.points().items() if name not in IN_TREE_POINTS}
    return {name: points for name, points in IN_TREE_POINTS.items() if name in have} | ours


# --------------------------------------------------------------------------------------------------------------------
# The configuration and plugins as given by the user: paths, dicts, classes, names of modules.

Configuration: TypeAlias = str | Path | Mapping[str, Any] | KubeSchedulerConfiguration | None
"""The path of a KubeSchedulerConfiguration, the same as a dict or as an object; None is the default one."""
PluginReference: TypeAlias = type | str | Path
"""A plugin class, ``file.py``, ``file.py:Class``, ``module:Class`` or the name of an entry point."""


def registry_with(plugins: Iterable[PluginReference]) -> tuple[Registry, list[str]]:
    """Return a registry with in-tree, given and installed plugins; and the names of the given ones."""
    registry = in_tree_registry()
    own: list[str] = []
    for plugin in plugins:
        if isinstance(plugin, type):
            own.append(registry.register(plugin))
        else:
            own += load_plugins([str(plugin)], registry)
    warn(load_installed(registry))
    return registry, own


def configuration_of(config: Configuration, own: Sequence[str], features: Features) -> KubeSchedulerConfiguration:
    """Return the configuration; by default upstream's, with these plugins enabled."""
    match config:
        case None:
            return config_from_dict(enabling(None, own), features)
        case str() | Path():
            loaded = load_config_file(config, features)
            where, notes, found = str(config), list(loaded.warnings), loaded.config
        case Mapping():
            where, notes, found = "config", [], config_from_dict(config, features)
        case KubeSchedulerConfiguration():
            where, notes, found = "config", [], config
        case _:
            raise InputError(f"config: found {config!r}; expected a path, a dict or a KubeSchedulerConfiguration")
    notes += unused(found, own, where)
    if found.extenders:
        urls = ", ".join(extender.shown_url for extender in found.extenders)
        notes.append(f"{where}: extenders are not called here, their verdicts are missing: {urls}")
    warn(notes)
    return found
