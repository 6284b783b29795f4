"""What a record holds: one struct per kind of thing that happened.

Inputs are what the scheduler received: ``Put``, ``Deleted``, ``Configured``. Outcomes are what it did: ``Attempt``,
``Moved``, ``Bound`` and the rest. A pod is named by its key (``namespace/name``) and its uid. On the wire an entry is a
MessagePack array that begins with its number; fields are only ever added at the end, with a default.
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
    """The first entry of a file: the writer, and everything that is needed to decide again."""

    format: int
    mooring: str  # the version that wrote the record
    kubernetes: str  # the version whose decisions these are, such as "1.36"
    source: str = "scheduler"  # the writer: "scheduler", "simulation", "scenario", "lesson", "watch" or "question"
    started: float = 0.0  # seconds since the epoch
    gates: dict[str, bool] = {}  # feature gates that are not at the version's default
    configuration: dict[str, Any] = {}  # the KubeSchedulerConfiguration, as ``config/wire.py`` writes it
    is_redacted: bool = True  # whether annotations were left out that scheduling does not read
    annotations: tuple[str, ...] = ()  # names of those that were kept because plugins read them
    extenders: tuple[ExtenderVerbs, ...] = ()  # that existed at the beginning


class Entry(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """Something that happened. Its time is beside it: a reader yields pairs of time and entry."""


# ---- inputs ----------------------------------------------------------------------------------------------------------


class Put(Entry, tag=1, frozen=True):
    """An object came or changed. ``object`` is a ``Pod``, a ``Node`` or another kind of :mod:`mooring.api`."""

    object: Object


class Deleted(Entry, tag=2, frozen=True):
    """An object is gone. ``key`` is ``namespace/name``, or the bare name of a cluster-scoped object."""

    kind: str
    key: str
    uid: str = ""


class Configured(Entry, tag=3, frozen=True):
    """The scheduler continues with another configuration."""

    configuration: dict[str, Any]
    extenders: tuple[ExtenderVerbs, ...] = ()
    annotations: tuple[str, ...] = ()  # that its plugins read; objects that have new ones come again


# ---- outcomes --------------------------------------------------------------------------------------------------------


class Answered(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """What an extender has answered at an attempt."""

    extender: str
    verb: str  # "filter", "prioritize" or "preempt"
    error: str | None = None  # what went wrong, if it did
    nodes: tuple[str, ...] = ()  # that are left
    failed: dict[str, str] = {}  # why others are not
    unresolvable: dict[str, str] = {}  # the same, where evicting pods does not help
    scores: tuple[tuple[str, int], ...] = ()
    weight: int = 1
    victims: dict[str, tuple[tuple[str, ...], int]] = {}  # uids by node, and how many break a budget


class Attempt(Entry, tag=10, frozen=True):
    """An attempt to find a node for a pod has ended with a decision."""

    number: int  # counts from 1 through the whole record
    key: str
    uid: str
    profile: str  # the scheduler name
    outcome: str  # "scheduled", "unschedulable" or "error"
    node: str = ""  # where the pod goes; empty if it goes nowhere
    message: str = ""  # why it goes nowhere
    tries: int = 1  # which attempt of this pod it is
    num_nodes: int = 0  # in the cluster
    evaluated: int = 0
    feasible: int = 0
    seconds: float = 0.0  # that the decision took; 0 in virtual time
    nominated: str | None = None  # the node that room is made on; None: what was nominated stays; "": nothing is
    victims: tuple[str, ...] = ()  # keys of pods that are to be evicted
    plugins: tuple[str, ...] = ()  # that refused the pod
    start: int = 0  # where the search began
    hint: str = ""  # the node that an equal pod before it left as the next best
    picks: tuple[int, ...] = ()  # the random numbers that were drawn
    score: int | None = None  # the total of the chosen node; None where nothing was scored
    answers: tuple[Answered, ...] | None = ()  # of extenders; None: they are left out, for they name too many nodes

    @property
    def is_scheduled(self) -> bool:
        return self.outcome == SCHEDULED


class Bound(Entry, tag=11, frozen=True):
    """A pod is bound; ``seconds`` have passed since its attempt began."""

    key: str
    uid: str
    node: str
    tries: int = 1
    seconds: float = 0.0


class BindingFailed(Entry, tag=12, frozen=True):
    """A pod had a node, and could not be bound. ``Failed`` follows."""

    key: str
    uid: str
    message: str


class Failed(Entry, tag=13, frozen=True):
    """An attempt has failed, before it had a node or after. What the pod held is free again."""

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
    """A victim was deleted, or stopped before it ran, to make room for the preemptor."""

    key: str
    uid: str
    node: str
    preemptor: str  # the key of the pod that needs the room


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
    """The waiting pods that are nominated to a node, from now on; the next attempt counts them in."""

    node: str
    uids: tuple[str, ...] = ()


class GroupAttempt(Entry, tag=19, frozen=True):
    """An attempt at a pod group: all its pods in one go. An ``Attempt`` follows for each of them, in this order."""

    group: str  # the key of the PodGroup
    profile: str
    first: int  # the number of the first pod's attempt
    uids: tuple[str, ...]
    message: str = ""
    victims: tuple[str, ...] = ()  # keys of pods that are to be evicted
    start: int = 0  # where the search began
    hints: tuple[str, ...] = ()  # for each pod
    picks: tuple[int, ...] = ()  # the random numbers that were drawn


class Note(Entry, tag=20, frozen=True):
    """A remark: the next step of a story, or a marker set by a user."""

    text: str
    kind: str = "note"


class Gap(Entry, tag=21, frozen=True):
    """This many entries are missing here: the disk was slower than the scheduler. The whole state follows."""

    missing: int


# ---- the state at a keyframe -----------------------------------------------------------------------------------------


class Queued(Entry, tag=30, frozen=True):
    """A pod that waits, at a keyframe."""

    key: str
    uid: str
    place: str
    tries: int = 0
    since: float = 0.0  # seconds since the epoch, when it entered this place
    added: float = 0.0  # when it first entered the queue
    event: str = ""  # what moved it there, if that is known
    cause: str = ""  # the object of that event
    message: str = ""
    plugins: tuple[str, ...] = ()


class Assumed(Entry, tag=31, frozen=True):
    """A pod that holds a node which the API server has not confirmed yet, at a keyframe."""

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
"""Everything but Put, which is written in another form: see ``packing.py``."""
Happened: TypeAlias = Put | Told


# --------------------------------------------------------------------------------------------------------------------
# What a record leaves out.
#
# The structs of :mod:`mooring.api` hold only fields that scheduling reads: Secrets, environment variables, commands and
# volume contents never get into a record. Annotations may contain anything, so only those are kept that scheduling
# reads, and those that the writer was given by name.

READ_ANNOTATIONS = frozenset(
    (BETA_STORAGE_CLASS, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, MIGRATED_PLUGINS, *GPU_ANNOTATIONS)
)

Redaction = Callable[[dict[str, str]], dict[str, str]]


def keeping(also: Iterable[str] = ()) -> Redaction:
    """Keep the annotations that scheduling reads, and these."""
    kept = READ_ANNOTATIONS.union(also)

    def redact(annotations: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in annotations.items() if name in kept}

    return redact
