"""The cluster at one moment, and the changes that lead from one moment to another."""

from __future__ import annotations

from collections import OrderedDict
from copy import copy
from dataclasses import dataclass

from mooring.api.core import Node, Pod
from mooring.api.meta import Condition, Object
from mooring.api.resource import ResourceClaim
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.core.framework.handle import Nominations, put_object, remove_object
from mooring.core.plugins.volumes.claims import SELECTED_NODE
from mooring.core.queue.events import node_changes
from mooring.core.state.cluster import ClusterState

UNSCHEDULABLE = "Unschedulable"  # the reason of a refusal that is not an error
UNKNOWN_VERSION = 1 << 62  # nothing is known to be older


@dataclass(frozen=True, slots=True, eq=False)
class SceneChange:
    """An object was added (``old`` is None), deleted (``new`` is None) or changed."""

    time: float  # when it was observed
    old: Object | None
    new: Object | None
    matters: bool  # whether a decision may depend on it

    @property
    def fills(self) -> str:
        """Node that has less room afterwards, if this is a pod that got a node."""
        return _node_of(self.new) if not _node_of(self.old) else ""

    @property
    def frees(self) -> str:
        """Node that has more room afterwards, if this is a pod that left a node."""
        return _node_of(self.old) if not _node_of(self.new) else ""

    @property
    def is_own(self) -> bool:
        """Report whether a scheduler caused it, and so knew of it before: it placed or nominated a pod."""
        if self.fills:
            return True
        old, new = self.old, self.new
        if not isinstance(old, Pod) or not isinstance(new, Pod) or new.spec.node_name:
            return False
        return old.status.nominated_node_name != new.status.nominated_node_name

    @property
    def may_have_held_room(self) -> bool:
        """Report whether a scheduler may have placed this pod although it never got a node: deleted before, or binding
        failed.
        """
        if not isinstance(self.old, Pod) or self.old.spec.node_name:
            return False
        if not isinstance(self.new, Pod):
            return True
        said = refusal_of(self.new)
        return said is not None and said.reason != UNSCHEDULABLE and said != refusal_of(self.old)

    @property
    def is_pod(self) -> bool:
        return isinstance(self.new or self.old, Pod)

    @property
    def version(self) -> int:
        """Resource version of the object; all objects share one order."""
        return version_of(self.new or self.old)

    @property
    def text(self) -> str:
        """Short description for users."""
        thing = self.new or self.old
        assert thing is not None
        what = f"{type(thing).__name__} {thing.key}"
        if self.fills:
            return f"{what} came to {self.fills}"
        if self.frees:
            return f"{what} left {self.frees}"
        return f"{what} {'came' if self.old is None else 'went' if self.new is None else 'changed'}"


class Scene:
    """A scheduler's possible knowledge at one moment: objects, and nominations of pending pods."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.nominations = Nominations()

    def fork(self) -> Scene:
        """Return a copy to move to another moment; later changes of one do not affect the other."""
        fork = Scene.__new__(Scene)
        fork.state = self.state.fork()
        fork.nominations = self.nominations.copy()
        return fork

    def do(self, change: SceneChange) -> None:
        if change.new is not None:
            self.put(change.new)
        elif change.old is not None:
            self.drop(change.old)

    def undo(self, change: SceneChange) -> None:
        if change.old is not None:
            self.put(change.old)
        elif change.new is not None:
            self.drop(change.new)

    def put(self, obj: Object) -> None:
        """Add or update an object."""
        put_object(self.state, self.nominations, obj)

    def drop(self, obj: Object) -> None:
        """Remove an object."""
        remove_object(self.state, self.nominations, obj)


def change_of(time: float, old: Object | None, new: Object | None) -> SceneChange:
    return SceneChange(time, old, new, _matters(old, new))


def version_of(obj: Object | None) -> int:
    """Return the resource version as a number."""
    version = "" if obj is None else obj.metadata.resource_version
    return int(version) if version.isdecimal() else UNKNOWN_VERSION


def refusal_of(pod: Pod) -> Condition | None:
    """Return the condition with the reason why the pod has no node."""
    said = pod.scheduled_condition
    is_refusal = said is not None and said.status == "False" and said.reason in (UNSCHEDULABLE, "SchedulerError")
    return said if is_refusal else None


def _node_of(obj: Object | None) -> str:
    return obj.spec.node_name if isinstance(obj, Pod) and not obj.is_finished else ""


def _matters(old: Object | None, new: Object | None) -> bool:
    """Report whether a change matters: most are heartbeats, and texts in a status that no scheduler reads."""
    if isinstance(old, Pod) or isinstance(new, Pod):
        return _pod_matters(old, new)  # type: ignore[arg-type]
    if old is None or new is None:
        return True
    if isinstance(old, Node) and isinstance(new, Node):
        is_cordoned_alike = old.spec.unschedulable == new.spec.unschedulable
        return not is_cordoned_alike or old.status.images != new.status.images or bool(node_changes(old, new))
    return not _is_same_but_for_its_version(old, new)


def _pod_matters(old: Pod | None, new: Pod | None) -> bool:
    there = [pod for pod in (old, new) if pod is not None]
    if not any(pod.spec.node_name or pod.status.nominated_node_name for pod in there):
        return False  # it is pending, and no pod is preempted for it
    if old is None or new is None:
        return True
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.is_terminating != new.is_terminating
        or old.is_finished != new.is_finished
        or old.status.nominated_node_name != new.status.nominated_node_name
        or old.status.start_time != new.status.start_time  # preemption compares it
        or old.status.resources != new.status.resources
        or old.status.container_statuses != new.status.container_statuses
    )


def _is_same_but_for_its_version(old: Object, new: Object) -> bool:
    one, two = copy(old.metadata), copy(new.metadata)
    one.resource_version = two.resource_version = ""
    one.generation = two.generation = 0
    like = copy(new)
    like.metadata = old.metadata
    return one == two and old == like


# --------------------------------------------------------------------------------------------------------------------
# A scheduler's writes about a pod before its binding: claims, volumes, the expected node.
#
# These writes follow from the decision. A repeated decision must not see them, or it would only repeat them.

MAX_KEPT = 10_000  # objects with a known version before a write
_Key = tuple[type[Object], str]


class OwnWrites:
    """Remembers the version before such a write, of the most recently written objects."""

    def __init__(self) -> None:
        self._before: OrderedDict[_Key, Object | None] = OrderedDict()  # None: it was created for the claim
        self._unexpected: OrderedDict[str, Pod] = OrderedDict()  # by uid, before the node was expected

    def note(self, old: Object | None, new: Object | None) -> None:
        """Process every change."""
        if new is None:
            if old is not None:
                self._before.pop((type(old), old.key), None)
                self._unexpected.pop(old.uid, None)
        elif isinstance(new, Pod):
            self._note_pod(old, new)
        elif _is_promised(new) and not (old is not None and _is_promised(old)):
            if old is not None or isinstance(new, PersistentVolume):
                self._keep((type(new), new.key), old)
        elif not _is_promised(new):
            self._before.pop((type(new), new.key), None)

    def _note_pod(self, old: Object | None, new: Pod) -> None:
        """Process a nomination: without a refusal it is where the scheduler is about to bind the pod.

        With a refusal, an attempt has ended: its writes stay, and the next one sees them.
        """
        if not isinstance(old, Pod) or new.spec.node_name:
            return
        if old.status.conditions != new.status.conditions:
            self._unexpected.pop(new.uid, None)
            for key in _claims_of(new):
                self._before.pop(key, None)
        elif new.status.nominated_node_name and not old.status.nominated_node_name:
            self._unexpected[new.uid] = old
            if len(self._unexpected) > MAX_KEPT:
                self._unexpected.popitem(last=False)

    def _keep(self, key: _Key, old: Object | None) -> None:
        self._before[key] = old
        self._before.move_to_end(key)
        if len(self._before) > MAX_KEPT:
            self._before.popitem(last=False)

    def known(self, obj: Object | None) -> Object | None:
        """Return the object as its scheduler knows it: a pod that it is about to bind counts on its node, also in
        scores.
        """
        if not isinstance(obj, Pod) or obj.uid not in self._unexpected or obj.spec.node_name:
            return obj
        placed = copy(obj)
        placed.spec = copy(obj.spec)
        placed.spec.node_name = obj.status.nominated_node_name
        return placed

    def version_of(self, pod: Pod) -> Pod:
        """Return the pending pod as it was decided about."""
        return self._unexpected.pop(pod.uid, pod)

    def undone(self, scene: Scene, pod: Pod, node: str) -> Scene:
        """Undo writes made because the pod goes to this node; return the scene itself if there are none, or a fork.

        A refusal leaves no writes to undo.
        """
        if scene.state.pod(pod.uid) is not None:
            scene = scene.fork()
            scene.drop(pod)
        if not node:
            return scene
        written = [key for key in _claims_of(pod) if key in self._before and not _is_used(scene, pod, key)]
        if not written:
            return scene
        fork = scene.fork()
        for kind, key in written:
            claim = scene.state.objects.get(kind, key)
            if isinstance(claim, PersistentVolumeClaim) and claim.spec.volume_name:
                self._put_back(fork, (PersistentVolume, claim.spec.volume_name))
            self._put_back(fork, (kind, key))
        return fork

    def _put_back(self, scene: Scene, key: _Key) -> None:
        if key not in self._before:
            return
        old = self._before[key]
        now = scene.state.objects.get(*key)
        if old is not None:
            scene.put(old)
        elif now is not None:
            scene.drop(now)


def _is_promised(obj: Object) -> bool:
    match obj:
        case PersistentVolumeClaim():
            return bool(obj.spec.volume_name) or SELECTED_NODE in obj.metadata.annotations
        case PersistentVolume():
            return obj.spec.claim_ref is not None
        case ResourceClaim():
            return obj.status.allocation is not None
    return False


def _claims_of(pod: Pod) -> list[_Key]:
    space = pod.namespace
    found: list[_Key] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append((PersistentVolumeClaim, f"{space}/{volume.persistent_volume_claim.claim_name}"))
        elif volume.ephemeral is not None:
            found.append((PersistentVolumeClaim, f"{space}/{pod.name}-{volume.name}"))
    names = [claim.resource_claim_name for claim in pod.spec.resource_claims]
    names += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    extended = pod.status.extended_resource_claim_status
    names.append(None if extended is None else extended.resource_claim_name)
    return found + [(ResourceClaim, f"{space}/{name}") for name in names if name]


def _is_used(scene: Scene, pod: Pod, key: _Key) -> bool:
    """Report whether a running pod uses the claim: then it was written for that one."""
    kind, name = key
    if kind is PersistentVolumeClaim:
        return scene.state.claim_users.get(name, 0) > 0
    claim = scene.state.objects.get(ResourceClaim, name)
    return claim is not None and any(user.uid != pod.uid for user in claim.status.reserved_for)
