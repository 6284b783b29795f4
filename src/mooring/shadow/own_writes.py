"""What a scheduler writes about a pod before it binds it: its claims, its volumes, the node that it expects.

These writes follow from the decision. Who decides again must not see them, or every answer would be the one given.
"""

from __future__ import annotations

from collections import OrderedDict
from copy import copy

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.resource import ResourceClaim
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.shadow.scene import Scene
from mooring.shadow.verdict import Happened
from mooring.volumes.claims import SELECTED_NODE

MAX_KEPT = 10_000
_Key = tuple[type[Object], str]


class OwnWrites:
    """Remembers the version before such a write, of the last objects that were written."""

    def __init__(self) -> None:
        self._before: OrderedDict[_Key, Object | None] = OrderedDict()  # None: it was made for the claim
        self._unexpected: OrderedDict[str, Pod] = OrderedDict()  # by uid, before a node was expected for the pod

    def note(self, old: Object | None, new: Object | None) -> None:
        """Look at every change."""
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
        """A nomination that comes without a refusal is where the scheduler is about to bind the pod.

        With a refusal, an attempt has ended: what it wrote stays, and the next one sees it.
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
        """The object as its scheduler knows it: a pod that it is about to bind counts on its node, also in scores."""
        if not isinstance(obj, Pod) or obj.uid not in self._unexpected or obj.spec.node_name:
            return obj
        placed = copy(obj)
        placed.spec = copy(obj.spec)
        placed.spec.node_name = obj.status.nominated_node_name
        return placed

    def version_of(self, pod: Pod) -> Pod:
        """The waiting pod as it was decided about."""
        return self._unexpected.pop(pod.uid, pod)

    def undone(self, scene: Scene, happened: Happened) -> Scene:
        """The scene without what was written for this outcome: itself if there is nothing, or a fork.

        Who refuses a pod has written nothing before.
        """
        pod = happened.pod
        if scene.state.pod(pod.uid) is not None:
            scene = scene.fork()
            scene.drop(pod)
        if not happened.node:
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
    """Whether a pod that runs already uses the claim: then it was written for that one."""
    kind, name = key
    if kind is PersistentVolumeClaim:
        return scene.state.claim_users.get(name, 0) > 0
    claim = scene.state.objects.get(ResourceClaim, name)
    return claim is not None and any(user.uid != pod.uid for user in claim.status.reserved_for)
