"""Entries of a record: one struct per kind of event.

Inputs are what the scheduler received: ``Put``, ``Deleted``, ``Configured``. Outcomes are what it did: ``Attempt``,
``Moved``, ``Bound`` and the others. A pod is named by its key (``namespace/name``) and its uid. On the wire an entry is
a MessagePack array that begins with its kind's number; fields are only added at the end, with a default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from mooring.api.meta import Object
from mooring.core.plugins.gpus.requests import GPU_ANNOTATIONS
from mooring.core.plugins.volumes.claims import BETA_STORAGE_CLASS, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from mooring.core.plugins.volumes.csi_migration import MIGRATED_PLUGINS

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
ACTIVE, BACKOFF, WAITING, GATED, IN_FLIGHT = "active", "backoff", "unschedulable", "gated", "in-flight"


class ExtenderVerbs(msgspec.Struct, frozen=True, omit_defaults=True):
    """An extender, and the verbs it implements."""

    name: str
    verbs: tuple[str, ...]  # "filter", "prioritize", "preempt"
    is_ignorable: bool = False


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First entry of a file: the writer, and everything needed to repeat decisions."""

    format: int
    mooring: str  # the version that wrote the record
    kubernetes: str  # emulated version, such as "1.36"
    source: str = "scheduler"  # the writer: "scheduler", "simulation", "scenario", "lesson", "watch" or "question"
    started: float = 0.0  # seconds since the epoch
    gates: dict[str, bool] = {}  # feature gates that are not at the version's default
    configuration: dict[str, Any] = {}  # the KubeSchedulerConfiguration, as ``config/wire.py`` writes it
    is_redacted: bool = True  # whether annotations that scheduling does not read were left out
    annotations: tuple[str, ...] = ()  # names of those kept for plugins
    extenders: tuple[ExtenderVerbs, ...] = ()  # that existed at the beginning


class Entry(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """Base class of entries. Their time is stored separately: a reader yields pairs of time and entry."""


# ---- inputs ----------------------------------------------------------------------------------------------------------


class Put(Entry, tag=1, frozen=True):
    """An object was added or changed. ``object`` is a ``Pod``, a ``Node`` or another kind of :mod:`mooring.api`."""

    object: Object


class Deleted(Entry, tag=2, frozen=True):
    """An object was deleted. ``key`` is ``namespace/name``, or the bare name of a cluster-scoped object."""

    kind: str
    key: str
    uid: str = ""


class Configured(Entry, tag=3, frozen=True):
    """The scheduler's configuration was replaced."""

    configuration: dict[str, Any]
    extenders: tuple[ExtenderVerbs, ...] = ()
    annotations: tuple[str, ...] = ()  # read by its plugins; objects with newly kept ones are repeated


# ---- outcomes --------------------------------------------------------------------------------------------------------


class Answered(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """Answer of an extender in an attempt."""

    extender: str
    verb: str  # "filter", "prioritize" or "preempt"
    error: str | None = None  # the error, if there was one
    nodes: tuple[str, ...] = ()  # remaining nodes
    failed: dict[str, str] = {}  # why others were rejected
    unresolvable: dict[str, str] = {}  # likewise, unresolvable
    scores: tuple[tuple[str, int], ...] = ()
    weight: int = 1
    victims: dict[str, tuple[tuple[str, ...], int]] = {}  # uids by node, and violated budgets


class Attempt(Entry, tag=10, frozen=True):
    """An attempt ended with a decision."""

    number: int  # counts from 1 through the whole record
    key: str
    uid: str
    profile: str  # the scheduler name
    outcome: str  # "scheduled", "unschedulable" or "error"
    node: str = ""  # chosen node; empty if there is none
    message: str = ""  # why there is no node
    tries: int = 1  # number of the attempt at this pod
    num_nodes: int = 0  # in the cluster
    evaluated: int = 0
    feasible: int = 0
    seconds: float = 0.0  # duration of the decision; 0 in virtual time
    nominated: str | None = None  # None: the nomination is kept; "": it is cleared
    victims: tuple[str, ...] = ()  # keys of pods to evict
    plugins: tuple[str, ...] = ()  # that rejected the pod
    start: int = 0  # start position of the search
    hint: str = ""  # node proposed by batching
    picks: tuple[int, ...] = ()  # random numbers of the attempt
    score: int | None = None  # total of the chosen node; None without scores
    answers: tuple[Answered, ...] | None = ()  # of extenders; None: left out, because they name too many nodes

    @property
    def is_scheduled(self) -> bool:
        return self.outcome == SCHEDULED


class Bound(Entry, tag=11, frozen=True):
    """A pod was bound; ``seconds`` have passed since its attempt began."""

    key: str
    uid: str
    node: str
    tries: int = 1
    seconds: float = 0.0


class BindingFailed(Entry, tag=12, frozen=True):
    """A pod with a node could not be bound. ``Failed`` follows."""

    key: str
    uid: str
    message: str


class Failed(Entry, tag=13, frozen=True):
    """An attempt failed, before or after the node was chosen. The pod's resources are free again."""

    key: str
    uid: str
    reason: str  # "Unschedulable" or "SchedulerError"
    message: str


class Moved(Entry, tag=14, frozen=True):
    """A pod has entered a part of the queue because of an event."""

    key: str
    uid: str
    place: str  # "active", "backoff", "unschedulable" or "gated"
    event: str  # the event's label, such as "NodeAdd"
    cause: str = ""  # the object of that event, such as "Node/worker-3"


class Evicted(Entry, tag=15, frozen=True):
    """A victim was deleted, or cancelled before it ran, to make room for the preemptor."""

    key: str
    uid: str
    node: str
    preemptor: str  # key of the pod that needs the room


class Waiting(Entry, tag=16, frozen=True):
    """A pod holds its node and waits for Permit plugins."""

    key: str
    uid: str
    node: str
    plugins: tuple[str, ...] = ()


class Waited(Entry, tag=17, frozen=True):
    """A pod no longer waits for Permit plugins."""

    key: str
    uid: str
    code: str  # "Success", or why not


class Nominated(Entry, tag=18, frozen=True):
    """The pending pods that are nominated to a node from now on; the next attempt counts them."""

    node: str
    uids: tuple[str, ...] = ()


class GroupAttempt(Entry, tag=19, frozen=True):
    """An attempt at a pod group. An ``Attempt`` follows for each of its pods, in order."""

    group: str  # the key of the PodGroup
    profile: str
    first: int  # number of the first pod's attempt
    uids: tuple[str, ...]
    message: str = ""
    victims: tuple[str, ...] = ()  # keys of pods to evict
    start: int = 0  # start position of the search
    hints: tuple[str, ...] = ()  # for each pod
    picks: tuple[int, ...] = ()  # random numbers of the attempt


class Note(Entry, tag=20, frozen=True):
    """A note: the next step of a story, or a user's marker."""

    text: str
    kind: str = "note"


class Gap(Entry, tag=21, frozen=True):
    """Entries are missing here, because the disk was slower than the scheduler. The whole state follows."""

    missing: int


# ---- the state at a keyframe -----------------------------------------------------------------------------------------


class Queued(Entry, tag=30, frozen=True):
    """A pending pod, at a keyframe."""

    key: str
    uid: str
    place: str
    tries: int = 0
    since: float = 0.0  # seconds since the epoch: entry into this place
    added: float = 0.0  # first entry into the queue
    event: str = ""  # the event that moved it there, if known
    cause: str = ""  # the object of that event
    message: str = ""
    plugins: tuple[str, ...] = ()


class Assumed(Entry, tag=31, frozen=True):
    """A pod with a node that the API server has not confirmed yet, at a keyframe."""

    uid: str
    node: str
    is_waiting: bool = False  # on Permit plugins


Told: TypeAlias = (
    Deleted
    | Configured
    | Attempt
    | Bound
    | BindingFailed
    | Failed
    | Moved
    | Evicted
    | Waiting
    | Waited
    | Nominated
    | GroupAttempt
    | Note
    | Gap
    | Queued
    | Assumed
)
"""Everything but Put, which is encoded differently: see ``packing.py``."""
Happened: TypeAlias = Put | Told


# --------------------------------------------------------------------------------------------------------------------
# Redaction.
#
# The structs of :mod:`mooring.api` have only fields that scheduling reads: Secrets, environment variables, commands and
# volume contents are never recorded. Annotations may contain anything, so only those that scheduling reads, and those
# named by the writer, are recorded.

READ_ANNOTATIONS = frozenset(
    (BETA_STORAGE_CLASS, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, MIGRATED_PLUGINS, *GPU_ANNOTATIONS)
)

Redaction = Callable[[dict[str, str]], dict[str, str]]


def keeping(also: Iterable[str] = ()) -> Redaction:
    """Return a redaction that keeps the annotations that scheduling reads, and these."""
    kept = READ_ANNOTATIONS.union(also)

    def redact(annotations: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in annotations.items() if name in kept}

    return redact
