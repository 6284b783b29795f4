"""What extender authors import: functions that say whether a pod may go to a node, and how good the node is.

    from mooring.extender.sdk import Node, Pod, refuse

    def filter(pod: Pod, node: Node):
        if node.labels.get("licence") != "yes":
            return refuse("the node has no licence")

    def prioritize(pod: Pod, node: Node) -> int:
        return 10 if node.labels.get("disk") == "ssd" else 0

``mooring extender serve my_ext.py`` makes a server of it that any
kube-scheduler can call, ``mooring extender config my_ext.py`` prints what to
put into its configuration. Functions or a class derived from
:class:`Extender` with methods of the same names; any of ``filter``,
``prioritize``, ``preempt`` and ``bind``, plain or ``async``.

The second parameter decides what comes: ``node`` is called for every node,
``nodes`` once with all of them. Its type says how a node comes: ``Node``,
``dict`` (the whole object), a msgspec Struct of your own with just the fields
you read (the fastest), or ``str``: names only; then kube-scheduler need not
send nodes at all (``nodeCacheCapable``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from mooring.api.core import Node, Pod

__all__ = [
    "MAX_SCORE",
    "Binding",
    "Extender",
    "Filtered",
    "Node",
    "Pod",
    "Refusal",
    "Victims",
    "refuse",
]

MAX_SCORE = 10
"""The best score that an extender gives; kube-scheduler multiplies it by the weight and by ten."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal and its reason. ``for_good``: evicting pods from the node would not help, so preemption skips it."""

    reason: str = ""
    for_good: bool = False


@lru_cache(maxsize=1024)  # the same few refusals, for thousands of nodes
def refuse(reason: str = "", *, for_good: bool = False) -> Refusal:
    """Refuse a node. Give a reason: users see it in the pod's event."""
    return Refusal(reason, for_good)


@dataclass(slots=True)
class Filtered:
    """A filter's answer for all nodes at once: which to keep, in any order, and why not the others.

    ``otherwise`` is the reason for every node that is neither kept nor refused with a reason of its own.
    """

    keep: Iterable[Any] = ()  # names or nodes
    refused: Mapping[str, str] = field(default_factory=dict)  # name -> reason
    refused_for_good: Mapping[str, str] = field(default_factory=dict)
    otherwise: str = ""


@dataclass(slots=True)
class Victims:
    """Whom preemption would evict from a node: pods, or just their uids if nodes come by name."""

    pods: Sequence[Pod]
    uids: Sequence[str]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod that is to be bound to a node, by you."""

    name: str
    namespace: str
    uid: str
    node: str


class Extender:
    """Base for an extender with state. Define any of the four methods; attributes go into the configuration.

    ``filter(pod, node)`` returns None or True to keep, False, a reason, or :func:`refuse` to refuse;
    ``filter(pod, nodes)`` returns the nodes or names to keep, or :class:`Filtered`.

    ``prioritize(pod, node)`` returns 0 to 10; ``prioritize(pod, nodes)`` a mapping from name to score, or a list with
    a score for each node.

    ``preempt(pod, victims)`` gets :class:`Victims` by node name and returns those to go on with: fewer nodes, or
    fewer or other victims (a mapping from node name to Victims or to uids).

    ``bind(binding)`` binds the pod itself; what it raises is shown to the user.
    """

    name: ClassVar[str] = ""
    weight: ClassVar[int] = 1
    ignorable: ClassVar[bool] = False
    http_timeout: ClassVar[str] = ""  # such as "2s"; kube-scheduler's default is 5s
    managed_resources: ClassVar[Sequence[str]] = ()  # only pods that ask for one of these are shown
    ignored_by_scheduler: ClassVar[bool] = False  # the scheduler itself then does not check these
