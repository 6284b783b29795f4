"""Queueing hints that several volume plugins give: a claim of the pod was made or has changed."""

from __future__ import annotations

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.storage import PersistentVolumeClaim
from mooring.framework.cluster_event import Hint
from mooring.volumes.claims import refers_to


def after_claim(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    """Wait for claims that the pod names, and for those of its ephemeral volumes."""
    return _after_claim(pod, new, ephemeral=True)


def after_named_claim(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    """Wait only for claims that the pod names."""
    return _after_claim(pod, new, ephemeral=False)


def _after_claim(pod: Pod, new: Object | None, *, ephemeral: bool) -> Hint:
    if not isinstance(new, PersistentVolumeClaim):
        return Hint.QUEUE
    return Hint.QUEUE if refers_to(pod, new, ephemeral=ephemeral) else Hint.SKIP
