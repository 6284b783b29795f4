"""What plugins hold in memory for pods that are being bound: volumes and devices that are promised, but not written.

The record does not hold it. So an attempt that promised something is made again when the moment comes by it, by the
same plugins that decide about later attempts.
"""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.core import Pod
from mooring.api.resource import DeviceClass
from mooring.engine.build import Built
from mooring.engine.decision import Decision
from mooring.framework.nominator import Nominations
from mooring.framework.runtime import Profile
from mooring.gpus.requests import GPU_ANNOTATIONS, NVIDIA
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo

ALL = range(1, 1 << 62)  # numbers of attempts


def may_reserve(pod: Pod, cluster: Cluster) -> bool:
    """Report whether an attempt at this pod may promise volumes, devices or parts of GPUs."""
    spec, annotations = pod.spec, pod.metadata.annotations
    return (
        bool(spec.resource_claims)
        or any(volume.persistent_volume_claim or volume.ephemeral for volume in spec.volumes)
        or (bool(annotations) and any(name in annotations for name in GPU_ANNOTATIONS))
        or any(NVIDIA in container.resources.requests for container in spec.containers)
        or next(iter(cluster.objects.all(DeviceClass)), None) is not None
    )


class Reservations:
    """Plugins that stay, with what they hold for pods by uid."""

    def __init__(self, built: Built, nominations: Nominations) -> None:
        self.built = built
        self._nominations = nominations
        self._held: dict[str, tuple[Profile, Decision, PodInfo]] = {}

    @property
    def uids(self) -> Iterable[str]:
        """The pods for which something is held."""
        return self._held

    def nominate(self, nominated: Iterable[tuple[PodInfo, str]]) -> None:
        """Let these be the nominations."""
        for node in self._nominations.nominated_nodes():
            for info in self._nominations.nominated_pods(node):
                self._nominations.withdraw(info.uid)
        for info, node in nominated:
            self._nominations.nominate(info, node)

    def hold(self, profile: Profile, decision: Decision, assumed: PodInfo) -> None:
        """Promise what a decision needs on the node on which the pod is assumed."""
        profile.run_reserve(decision.state, assumed, assumed.pod.spec.node_name)
        self._held[assumed.uid] = profile, decision, assumed

    def release(self, uid: str) -> None:
        """The pod is bound, and everything is written; or it is not, and everything is free."""
        held = self._held.pop(uid, None)
        if held is not None:
            profile, decision, assumed = held
            profile.run_unreserve(decision.state, assumed, assumed.pod.spec.node_name)
