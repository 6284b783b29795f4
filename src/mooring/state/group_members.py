"""Which pods belong to which pod group: those that the API server knows, and those that have a node."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mooring.api.core import Pod
from mooring.state.pod_info import PodInfo

_NOBODY: Mapping[str, PodInfo] = MappingProxyType({})
_NO_PODS: Mapping[str, Pod] = MappingProxyType({})


def group_of(pod: Pod) -> str:
    """``namespace/name`` of the group that the pod names, or nothing."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return ""
    return f"{pod.metadata.namespace}/{group.pod_group_name}"


class GroupMembers:
    """Members by group (``namespace/name``) and uid. The inner maps are never changed, so copies may share them."""

    __slots__ = ("_known", "_placed")

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, Pod]] = {}  # pods without a node, as the API server last told of them
        self._placed: dict[str, Mapping[str, PodInfo]] = {}  # running and assumed

    def copy(self) -> GroupMembers:
        copy = GroupMembers()
        copy._known, copy._placed = dict(self._known), dict(self._placed)
        return copy

    # ---- reading -----------------------------------------------------------------------------------------------

    def count(self, group: str) -> int:
        """How many pods of the group there are, with a node or without."""
        return len(self._known.get(group, _NO_PODS).keys() | self._placed.get(group, _NOBODY).keys())

    def placed(self, group: str) -> Mapping[str, PodInfo]:
        """The pods of the group that have a node: running, or assumed."""
        return self._placed.get(group, _NOBODY)

    @property
    def has_placed(self) -> bool:
        """Whether any pod that has a node belongs to a group."""
        return bool(self._placed)

    def nodes(self) -> set[str]:
        """The names of the nodes on which members of any group are."""
        return {pod.pod.spec.node_name for members in self._placed.values() for pod in members.values()}

    def unplaced(self, group: str) -> list[Pod]:
        """The pods of the group that have no node."""
        placed = self.placed(group)
        return [pod for uid, pod in self._known.get(group, _NO_PODS).items() if uid not in placed]

    # ---- changing ----------------------------------------------------------------------------------------------

    def note(self, pod: Pod) -> None:
        """The API server tells of a member: one without a node is known from now on."""
        if pod.spec.node_name:
            self.forget(pod)
        else:
            group = group_of(pod)
            self._known[group] = {**self._known.get(group, _NO_PODS), pod.uid: pod}

    def forget(self, pod: Pod) -> None:
        """The member is gone, or has a node."""
        _drop(self._known, group_of(pod), pod.uid)

    def place(self, pod: PodInfo) -> None:
        group = group_of(pod.pod)
        self._placed[group] = {**self._placed.get(group, _NOBODY), pod.uid: pod}

    def displace(self, pod: PodInfo) -> None:
        _drop(self._placed, group_of(pod.pod), pod.uid)


def _drop(by_group: dict[str, Mapping[str, PodInfo]] | dict[str, Mapping[str, Pod]], group: str, uid: str) -> None:
    members = by_group.get(group)
    if members is None or uid not in members:
        return
    left = {key: member for key, member in members.items() if key != uid}
    if left:
        by_group[group] = left  # type: ignore[assignment]
    else:
        del by_group[group]
