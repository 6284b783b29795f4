"""NodeVolumeLimits: limits the volumes of each CSI driver on a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod, Volume
from mooring.api.errors import ParseError
from mooring.api.meta import Object
from mooring.api.storage import CSIDriver, CSINode, VolumeAttachment
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import PreFilterResult, Remedy
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP_FOR_TEMPLATE, SUCCESS_FOR_TEMPLATE, Status, Verdict
from mooring.core.plugins.volumes.attached import AttachedVolumes, ClaimMissing, CountError, NodeVolumes, limits
from mooring.core.plugins.volumes.claims import after_claim, without_volumes
from mooring.core.plugins.volumes.csi_migration import inline_handle, inline_plugin
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

EXCEEDED = Status.unschedulable("node(s) exceed max volume count")

Codes = NDArray[np.int64]


class NodeVolumeLimits:
    """Rejects nodes that would exceed the limit of a driver in their CSINode; evicting pods can help.

    A volume that a pod on the node uses already is not counted again. Nodes without a CSINode have no limits.
    """

    name: ClassVar[str] = "NodeVolumeLimits"
    traits: ClassVar[Traits] = Traits(filter_reads=Reads.LOCAL)

    def __init__(self, args: None, handle: Handle) -> None:
        self._objects, self._table = handle.cluster.objects, handle.cluster.table
        self._attached = AttachedVolumes(handle.cluster)
        self._drivers_must_exist = handle.is_enabled("VolumeLimitScaling")

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.shape.signed_volumes(pod.pod.spec)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        counts = any(_may_count(volume) for volume in pod.shape.volumes)
        return SUCCESS_FOR_TEMPLATE if counts else SKIP_FOR_TEMPLATE

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        self._attached.refresh()
        statuses = [EXCEEDED]  # by code, from 1 on
        volumes = self._new_volumes(pod, has_csi_node=True)
        problems = self._problems_of_pod(pod, volumes, statuses)
        counts = isinstance(volumes, dict) and bool(volumes)
        over = self._over_limit(volumes) if isinstance(volumes, dict) else None
        moved = nodes.moved_since(self._table)
        if problems is None and over is None and not (counts and (self._attached.failing or moved)):
            return None  # there is room everywhere
        codes = np.zeros(len(nodes.table), np.int64) if problems is None else problems
        if isinstance(volumes, dict) and volumes:
            countable = (codes == 0) & self._attached.has_limits
            if over is not None:
                codes[countable & over] = 1
            for name, why in self._attached.failing.items():
                row = nodes.table.nodes[name].row
                if countable[row]:
                    codes[row] = _code(statuses, Status.error(why))
            codes = codes if nodes.index is None else codes[nodes.index]
            for i in moved:
                info = nodes.infos[i]
                if countable[info.row]:
                    codes[i] = self._judge(volumes, info.name, self._attached.tally(info.name, nodes.pods(i)), statuses)
        elif nodes.index is not None:
            codes = codes[nodes.index]
        return Verdict.choose(codes, statuses) if codes.any() else None

    def _new_volumes(self, pod: PodInfo, *, has_csi_node: bool) -> dict[str, str] | Status:
        try:
            return self._attached.of_new_pod(pod, has_csi_node=has_csi_node)
        except ClaimMissing as error:
            return Status.unresolvable(str(error))
        except CountError as error:
            return Status.error(str(error))

    def _problems_of_pod(self, pod: PodInfo, volumes: dict[str, str] | Status, statuses: list[Status]) -> Codes | None:
        """Return rejections independent of counts: problems of the pod's claims, and missing drivers."""
        has_csi_node = self._attached.has_csi_node
        without = volumes
        if not has_csi_node.all():  # in-tree volumes have not migrated there
            without = self._new_volumes(pod, has_csi_node=False)
        if isinstance(volumes, dict) and isinstance(without, dict) and not self._drivers_must_exist:
            return None
        codes = np.zeros(len(has_csi_node), np.int64)
        for found, where in ((volumes, has_csi_node), (without, ~has_csi_node)):
            if isinstance(found, Status):
                codes[where] = _code(statuses, found)
            elif self._drivers_must_exist:
                for driver in sorted(set(found.values())):
                    codes[where & (codes == 0) & self._lacks(driver)] = _code(
                        statuses, Status.unschedulable(f"{driver} CSI driver is not installed on the node")
                    )
        return codes

    def _lacks(self, driver: str) -> NDArray[np.bool_]:
        """Return nodes without a driver that must be installed first."""
        csi_driver = self._objects.get(CSIDriver, driver)
        insists = csi_driver is not None and csi_driver.spec.prevent_pod_scheduling_if_missing is True
        return ~self._attached.installed(driver) if insists else np.zeros(len(self._attached.has_csi_node), np.bool_)

    def _over_limit(self, volumes: Mapping[str, str]) -> NDArray[np.bool_] | None:
        """Return where the volumes that no pod there uses yet exceed their driver's limit; None: nowhere."""
        over: NDArray[np.bool_] | None = None
        for driver, count in Counter(volumes.values()).items():
            limit = self._attached.limit(driver)
            if limit is None:
                continue
            room = limit - self._attached.count(driver)
            if not (room < count).any():
                continue
            new = np.full(len(room), count, np.int64)
            for volume in volumes:
                if volumes[volume] == driver:
                    new[self._attached.rows_using(volume)] -= 1
            found = (new > 0) & (room < new)
            over = found if over is None else over | found
        return over

    def _judge(self, volumes: Mapping[str, str], name: str, node: NodeVolumes, statuses: list[Status]) -> int:
        """Return the code of one node whose pods differ from the columns."""
        if node.error:
            return _code(statuses, Status.error(node.error))
        limits = self._attached.limits_of(name)
        new = Counter(driver for volume, driver in volumes.items() if volume not in node.volumes)
        return int(
            any(driver in limits and node.counts.get(driver, 0) + n > limits[driver] for driver, n in new.items())
        )

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[Remedy]:
        return without_volumes(pod, self._objects)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(EventResource.CSI_NODE, ActionType.ADD),
            on(EventResource.CSI_NODE, ActionType.UPDATE, _after_csi_node_updated),
            on(EventResource.POD, ActionType.DELETE, _after_pod_deleted),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, after_claim),
            on(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE, _after_attachment_deleted),
        )


def _code(statuses: list[Status], status: Status) -> int:
    if status not in statuses:
        statuses.append(status)
    return statuses.index(status) + 1


def _may_count(volume: Volume) -> bool:
    return (
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or inline_plugin(volume) is not None
    )


def _after_csi_node_updated(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return Hint.QUEUE
    before, after = limits(old), limits(new)
    return Hint.QUEUE if any(count > before.get(driver, 0) for driver, count in after.items()) else Hint.SKIP


def _after_pod_deleted(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, Pod):
        return Hint.QUEUE
    if not old.spec.node_name and not old.status.nominated_node_name:
        return Hint.SKIP
    return Hint.QUEUE if any(_may_count(volume) for volume in old.spec.volumes) else Hint.SKIP


def _after_attachment_deleted(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, VolumeAttachment):
        return Hint.QUEUE
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        plugin = inline_plugin(volume)
        if plugin is None:
            continue
        try:
            inline_handle(plugin, volume)
        except ParseError:
            return Hint.QUEUE
        if plugin.driver == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP
