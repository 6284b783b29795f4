"""The cluster as columns: one row per node, in node-tree order.

Arrays are laid out ``[resource, node]`` so that a rule about one resource reads contiguous memory. Adding or removing a
pod changes one row; adding or removing a node rebuilds the table, once, when it is next read.

``fork`` returns a separate table for a hypothesis: it shares every column with this one, and either copies a column
before writing to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, MutableMapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Taint
from mooring.api.errors import ParseError
from mooring.api.quantity import milli_value_of, value_of
from mooring.core.state.columns import MISSING, ImageStates, LabelColumn
from mooring.core.state.node_info import NodeInfo, NodeTree
from mooring.core.state.pod_info import HostPort, PodInfo, PodShape
from mooring.core.state.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_scalar_name
from mooring.core.state.sharing import EVERYTHING, ChangeLog, Forkable, Overlay, OverlayList, stamps

NOBODY = 2**31  # above every priority
SLACK = 64  # unused label values and sets of taints that are kept

# The parts that a fork shares with its parent, each copied as a whole. ``_own`` lists the arrays of a part.
POD_COLUMNS, LOWEST_PRIORITY, NODE_COLUMNS, NAMES, PORTS, IMAGES = 1, 2, 4, 8, 16, 32
EVERY_PART = 63

Infos = list[NodeInfo] | OverlayList[NodeInfo]
T = TypeVar("T", bound=np.generic)


class NodeTable(Forkable):
    """All columns, and the logs of rows that changed."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: MutableMapping[str, NodeInfo] = {}  # also those without a node object (ghosts)
        self.infos: Infos = []  # by row
        self.generation = next(stamps)  # another number when rows move
        self.node_version = next(stamps)  # another number when rows move or a node object changes
        self.resources: dict[str, int] = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}  # name -> index
        self._names = tuple(self.resources)  # by index
        self._set_offered(np.zeros((1 + len(self.resources), 0), np.int64))
        self._set_taken(np.zeros((3 + len(self.resources), 0), np.int64))
        # [node], of its pods; NOBODY for a node without pods
        self.lowest_priority: NDArray[np.int64] = np.zeros(0, np.int64)
        self.unschedulable: NDArray[np.bool_] = np.zeros(0, np.bool_)  # [node]
        self.taint_set: NDArray[np.int32] = np.zeros(0, np.int32)  # [node], index into taint_sets
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.feature_set: NDArray[np.int32] = np.zeros(0, np.int32)  # [node], index into feature_sets
        self.feature_sets: list[frozenset[str]] = [frozenset()]
        self.images = ImageStates()
        self.port_users: dict[tuple[str, int], set[str]] = {}  # (protocol, port) -> nodes where it is taken
        self.problems: dict[str, str] = {}  # node name -> why it could not be read
        self.node_log: ChangeLog[int] = ChangeLog()  # rows whose node object changed
        self.pod_log: ChangeLog[int] = ChangeLog()  # rows whose pods changed
        self.start_log: ChangeLog[int] = ChangeLog()  # rows where only a pod's start time changed
        self.base: NodeTable | None = None  # what this is a fork of
        self.counts_pods = True  # False for nodes from an extender, whose pods are unknown
        self._taint_ids: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._feature_ids: dict[frozenset[str], int] = {frozenset(): 0}
        self._labels: dict[str, LabelColumn] = {}  # of keys that occur on nodes, once a rule asks
        # Pods may name any number of keys that no node has: these share a column, which needs no updates.
        self._label_keys: set[str] = set()  # that occur on nodes; a fork's may be included
        self._absent = LabelColumn()
        self._indices: dict[Hashable, NDArray[np.int64] | slice] = {}  # an index never changes once given
        self.kept: dict[Hashable, Any] = {}  # values derived from these columns, by key
        self._tree = NodeTree()
        self._stale = False
        # Where the rows came from when they last moved: the generation before, and the row there of each row.
        self.moved: tuple[int, NDArray[np.int64]] | None = None
        # A NodeInfo is written in place only by the table that made it (``info.owner is _key``), and only if the table
        # has not been forked since (``info.stamp >= _epoch``). Otherwise it is copied first: see ``_writable``.
        self._key = object()
        self._epoch = 0

    def __len__(self) -> int:
        return len(self.infos)

    # All figures of nodes are one array, and so are all figures of pods: one operation writes or reads those of a row.

    def _set_offered(self, figures: NDArray[np.int64]) -> None:
        self.offered = figures  # [pods | resource, node]
        self.allowed_pods: NDArray[np.int64] = figures[0]  # [node]
        self.allocatable: NDArray[np.int64] = figures[1:]  # [resource, node], cpu in thousandths

    def _set_taken(self, figures: NDArray[np.int64]) -> None:
        self._taken = figures
        self.non_zero_requested: NDArray[np.int64] = figures[:2]  # [cpu | memory, node]
        self.taken: NDArray[np.int64] = figures[2:]  # [pods | resource, node]
        self.pod_count: NDArray[np.int64] = figures[2]  # [node]
        self.requested: NDArray[np.int64] = figures[3:]  # [resource, node]

    # ---- forks -------------------------------------------------------------------------------------------------

    def fork(self) -> NodeTable:
        """Return a table for a hypothesis. Later changes of one do not affect the other."""
        fork = NodeTable.__new__(NodeTable)
        fork.__dict__.update(self.__dict__)
        self.share_with(fork, EVERY_PART)
        fork.shared &= ~NAMES  # they are laid over the parent's
        fork._with_parent &= ~NAMES
        fork.infos, fork.nodes = OverlayList(self.infos), Overlay(self.nodes)
        fork.resources = dict(self.resources)
        fork.node_log, fork.pod_log, fork.start_log = ChangeLog(), ChangeLog(), ChangeLog()
        fork.base = self
        fork._labels = {key: column.fork() for key, column in self._labels.items()}
        fork._indices, fork.kept = {}, {}
        fork._key, fork._epoch = object(), 0
        self._epoch = next(stamps)  # all existing node infos belong to both from now on
        return fork

    def _own(self, part: int) -> None:
        """Make a part writable: copy it, unless every other holder is gone."""
        if not self.must_copy(part):
            return
        if part == POD_COLUMNS:
            self._set_taken(self._taken.copy())
        elif part == LOWEST_PRIORITY:
            self.lowest_priority = self.lowest_priority.copy()
        elif part == NODE_COLUMNS:
            self._set_offered(self.offered.copy())
            self.unschedulable = self.unschedulable.copy()
            self.taint_set, self.taint_sets = self.taint_set.copy(), list(self.taint_sets)
            self.feature_set, self.feature_sets = self.feature_set.copy(), list(self.feature_sets)
            self._taint_ids, self._feature_ids = dict(self._taint_ids), dict(self._feature_ids)
            self.problems = dict(self.problems)
            self._tree = self._tree.copy()
        elif part == NAMES:
            self.nodes, self.infos = dict(self.nodes.items()), list(self.infos)
        elif part == PORTS:
            self.port_users = {port: set(users) for port, users in self.port_users.items()}
        else:
            self.images = self.images.copy()

    def _writable(self, info: NodeInfo) -> NodeInfo:
        """Return the node info itself if this table may write to it, or a copy that replaces it."""
        if info.owner is self._key and info.stamp >= self._epoch:
            return info
        if info.owner is self._key and not self.has_forks():
            self._epoch = 0  # all forks are gone: nothing is shared with them any more
            return info
        if self.shared & NAMES:
            self._own(NAMES)
        copy = info.copy(self._key, self._epoch)
        self.nodes[copy.name] = copy
        if copy.row >= 0:
            self.infos[copy.row] = copy
        return copy

    def _with_own_pods(self, info: NodeInfo) -> NodeInfo:
        info = self._writable(info)
        if not info.has_own_pods:
            info.own_pods()
        return info

    def forget_pods_and_images(self) -> None:
        """Drop pods and images, and keep the nodes."""
        self.counts_pods = False
        self._set_taken(np.zeros_like(self._taken))
        self.lowest_priority = np.full_like(self.lowest_priority, NOBODY)
        self.port_users = {}
        self.images = ImageStates()
        for part in (POD_COLUMNS, LOWEST_PRIORITY, PORTS, IMAGES):
            self.must_copy(part)  # no part of it is shared any more

    def moved_since(self, base: NodeTable) -> set[int] | None:
        """Return the rows whose pods differ from those of the parent table; None: rows have moved."""
        rows: set[int] = set()
        table: NodeTable | None = self
        while table is not base:
            assert table is not None, "not a fork of that table"
            changes = table.pod_log.since(0)
            if changes is EVERYTHING:
                return None
            rows.update(changes)
            table = table.base
        return rows

    # ---- nodes -------------------------------------------------------------------------------------------------

    def info(self, name: str) -> NodeInfo:
        """Return the node of that name, created as a ghost if unknown."""
        info = self.nodes.get(name)
        if info is None:
            info = NodeInfo(name)
            info.owner, info.stamp = self._key, self._epoch
            if self.shared & NAMES:
                self._own(NAMES)
            self.nodes[name] = info
        return info

    def set_node(self, node: Node) -> None:
        """Add or update a node."""
        info = self._writable(self.info(node.metadata.name))
        is_new = info.node is None
        info.node = node
        self._own_nodes()
        self._tree.add(info.name, node.metadata.labels)
        self.images.set_node(node)
        if is_new:
            self._stale = True
        elif info.row >= 0:
            self._write_node(info)
            self.node_version = next(stamps)
            self.node_log.note(info.row)

    def nodes_by_zone(self) -> list[Node]:
        """Return all nodes in an order that gives the same rows when they are added to an empty table."""
        return [node for name in self._tree.by_zone() if (node := self.nodes[name].node) is not None]

    def remove_node(self, name: str) -> None:
        """Remove a node object; pods still counted on it stay on a ghost."""
        info = self.nodes.get(name)
        if info is None or info.node is None:
            return
        self._own_nodes()
        info = self._writable(info)
        info.node = None
        self._tree.remove(name)
        self.images.remove_node(name)
        self.problems.pop(name, None)
        self._stale = True
        info.row = -1  # immediately: if the node returns before the next snapshot, it is new
        if not info.pods:
            del self.nodes[name]

    def remove_node_with_pods(self, name: str) -> None:
        """Forget a node and its pods. Its row is no longer read, so its figures stay as they are until it goes."""
        info = self._writable(self.nodes[name])
        if info.host_ports:
            info = self._with_own_pods(info)
            self._free_ports(info, tuple(info.host_ports))
        info.pods, info.has_own_pods = {}, True
        if info.node is None:
            self._own_nodes()
            del self.nodes[name]
        self.remove_node(name)

    def _own_nodes(self) -> None:
        for part in (NODE_COLUMNS, NAMES, IMAGES):
            if self.shared & part:
                self._own(part)

    @property
    def is_stale(self) -> bool:
        """Report whether the rows will move when they are next read."""
        return self._stale

    def refresh(self) -> None:
        """Update the layout before columns are read."""
        if self._stale:
            self._lay_out()
        elif type(self.infos) is OverlayList:  # a fork that is read as a whole, not only a few rows of it
            self.infos = list(self.infos)
        if self.images.is_stale:
            if self.shared & IMAGES:
                self._own(IMAGES)
            self.images.refresh()

    def _lay_out(self) -> None:
        """Put the rows into node-tree order, keeping the data of remaining nodes."""
        self._own_nodes()
        for part in (POD_COLUMNS, LOWEST_PRIORITY):
            if self.shared & part:
                self._own(part)
        # The order of rows is upstream's: one node of each zone in turn. It decides which of equal nodes wins. Rows
        # move only here, so everything that keeps row numbers compares ``generation`` or follows a log.
        if type(self.nodes) is Overlay:
            self.nodes = dict(self.nodes.items())
        infos = list(map(self.nodes.__getitem__, self._tree.names()))
        n, width = len(infos), len(self.resources)
        old_rows = np.fromiter(map(attrgetter("row"), infos), np.int64, n)
        kept = old_rows >= 0
        source = None if kept.all() else old_rows[kept]

        def moved(column: NDArray[T]) -> NDArray[T]:
            if source is None:
                return column.take(old_rows, -1)
            fresh = np.zeros((*column.shape[:-1], n), column.dtype)
            fresh[..., kept] = column[..., source]
            return fresh

        self._set_offered(moved(self.offered))
        self._set_taken(moved(self._taken))
        self.lowest_priority = moved(self.lowest_priority)
        self.unschedulable = moved(self.unschedulable)
        self.taint_set, self.feature_set = moved(self.taint_set), moved(self.feature_set)
        for label in self._labels.values():
            label.renumber_rows(moved(label.ids))
        assert self.allocatable.shape == (width, n)
        self.infos = infos
        self.moved = (self.generation, old_rows) if source is None else None
        self.generation = self.node_version = next(stamps)
        for log in (self.node_log, self.pod_log, self.start_log):
            log.restart()  # its rows are other nodes now
        self._stale = False
        key, epoch, nodes = self._key, self._epoch, self.nodes
        for row in (old_rows != np.arange(n)).nonzero()[0].tolist():
            info = infos[row]
            is_new = info.row < 0
            if info.owner is not key or info.stamp < epoch:
                info = infos[row] = nodes[info.name] = info.copy(key, epoch)
            info.row = row
            if is_new:
                self._write_node(info)
                self.lowest_priority[row] = NOBODY
                for pod in info.pods.values():
                    self._count_pod(info, pod, 1)

    def _write_node(self, info: NodeInfo) -> None:
        """Read the node object into its row. The caller has made the node columns writable."""
        node, row = info.node, info.row
        assert node is not None
        self.offered[:, row] = 0
        self.problems.pop(info.name, None)
        for name, text in node.status.allocatable.items():
            try:
                amount = milli_value_of(text) if name == CPU else value_of(text)
            except ParseError as error:
                self.problems[info.name] = f"status.allocatable[{name}]: {error}"
                continue
            if name == PODS:
                self.allowed_pods[row] = amount
            elif name in self.resources or is_scalar_name(name):
                index = self.resource_index(name)
                self.allocatable[index, row] = amount
        self.unschedulable[row] = node.spec.unschedulable
        most = 2 * len(self.nodes) + SLACK
        if len(self.taint_sets) > most:
            self._forget_unused_taints()
        self.taint_set[row] = self._intern_taints(node.spec.taints)
        features = frozenset(node.status.declared_features)
        if features not in self._feature_ids:
            self._feature_ids[features] = len(self.feature_sets)
            self.feature_sets.append(features)
        self.feature_set[row] = self._feature_ids[features]
        labels = node.metadata.labels
        self._label_keys.update(labels)
        for key, column in self._labels.items():
            if len(column.values) > most:
                column.forget_unused()
            column.put(row, labels.get(key))

    def _intern_taints(self, taints: list[Taint]) -> int:
        key = _taint_key(taints)
        number = self._taint_ids.get(key)
        if number is None:
            number = self._taint_ids[key] = len(self.taint_sets)
            self.taint_sets.append(tuple(taints))
        return number

    def _forget_unused_taints(self) -> None:
        """Renumber the sets in use: autoscalers write the time into their taints."""
        used, ids = np.unique(np.append(self.taint_set, 0), return_inverse=True)  # 0, no taints, keeps its number
        self.taint_set = ids[:-1].astype(np.int32)
        self.taint_sets = [self.taint_sets[i] for i in used.tolist()]
        self._taint_ids = {_taint_key(taints): i for i, taints in enumerate(self.taint_sets)}

    # ---- columns -----------------------------------------------------------------------------------------------

    def resource_index(self, name: str) -> int:
        """The index of a resource, widening the columns for one that is new."""
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = len(self.resources)
            self._names = tuple(self.resources)
            # The arrays are reallocated, so a fork keeps its own width. ``shared`` may still have their bits: at worst
            # they are copied once more.
            row = np.zeros((1, self.offered.shape[1]), np.int64)
            self._set_offered(np.concatenate((self.offered, row)))
            self._set_taken(np.concatenate((self._taken, row)))
        return index

    def indices(self, names: tuple[str, ...]) -> NDArray[np.int64] | slice:
        """Return the indices of several resources, to read their columns together: a slice if they are adjacent."""
        found = self._indices.get(names)
        if found is None:
            found = self._index(names, [self.resource_index(name) for name in names])
        return found

    def indices_with_pods(self, names: tuple[str, ...]) -> NDArray[np.int64] | slice:
        """Return the indices in ``offered`` and ``taken``, with the number of pods before the resources."""
        key = PODS, names
        found = self._indices.get(key)
        if found is None:
            found = self._index(key, [0, *(1 + self.resource_index(name) for name in names)])
        return found

    def _index(self, key: Hashable, each: list[int]) -> NDArray[np.int64] | slice:
        first = each[0] if each else 0
        is_run = each == list(range(first, first + len(each)))
        if len(self._indices) > 1024:
            self._indices.clear()
        found = self._indices[key] = slice(first, first + len(each)) if is_run else np.array(each, np.int64)
        return found

    def resource_key(self, row: int) -> bytes:
        """Return all figures of a row in one value: rows with equal keys are equally full."""
        return self.offered[:, row].tobytes() + self._taken[:, row].tobytes()

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label key, created on first use. One that no node has has no values."""
        column = self._labels.get(key)
        if column is None and key not in self._label_keys:
            if len(self._absent.ids) != len(self):
                self._absent = LabelColumn()
                self._absent.ids = np.full(len(self), MISSING, np.int32)
            return self._absent
        if column is None:
            column = self._labels[key] = LabelColumn()
            column.ids = np.fromiter((column.intern(info.labels.get(key)) for info in self.infos), np.int32, len(self))
        return column

    # ---- pods --------------------------------------------------------------------------------------------------

    def add_pod(self, info: NodeInfo, pod: PodInfo) -> None:
        """Count a pod on a node."""
        if info.owner is not self._key or info.stamp < self._epoch or not info.has_own_pods:
            info = self._with_own_pods(info)
        info.pods[pod.uid] = pod
        self._touch_images(info)
        if info.row >= 0:
            self._count_pod(info, pod, 1)
            self.pod_log.note(info.row)
        if pod.shape.host_ports:
            self._take_ports(info, pod.shape.host_ports)

    def add_pods(self, placed: Sequence[tuple[NodeInfo, PodInfo]]) -> None:
        """Count many pods: those with equal requests are counted once for all nodes."""
        listed = [(info.row, pod) for info, pod in placed if info.row >= 0]
        self.move_pods(listed, 1)
        if self.shared & LOWEST_PRIORITY:
            self._own(LOWEST_PRIORITY)
        np.minimum.at(self.lowest_priority, [row for row, _ in listed], [pod.priority for _, pod in listed])
        for info in {info.name: info for info, _ in placed}.values():
            self._touch_images(info)
        for info, pod in placed:
            if info.row < 0:
                self.add_pod(self.info(info.name), pod)

    def remove_pod(self, info: NodeInfo, pod: PodInfo) -> None:
        """Stop counting a pod; raise KeyError if it is not counted."""
        if pod.uid not in info.pods:
            raise KeyError(pod.uid)
        if info.owner is not self._key or info.stamp < self._epoch or not info.has_own_pods:
            info = self._with_own_pods(info)
        del info.pods[pod.uid]
        self._touch_images(info)
        if info.row >= 0:
            self._count_pod(info, pod, -1)
            self.pod_log.note(info.row)
        if pod.shape.host_ports:
            self._free_ports(info, pod.shape.host_ports)
        if info.node is None and not info.pods:
            if self.shared & NAMES:
                self._own(NAMES)
            self.nodes.pop(info.name, None)

    def replace_pod(self, pod: PodInfo) -> None:
        """Replace a pod by another object that counts alike."""
        info = self._with_own_pods(self.nodes[pod.pod.spec.node_name])
        info.pods[pod.uid] = pod

    def move_pods(self, moves: Sequence[tuple[int, PodInfo]], sign: int) -> None:
        """Add (1) or remove (-1) many pods by row, for a dry run on a fork.

        Pods that ask for the same are counted once for all nodes. Images and lowest priorities stay as they are.
        """
        if self.shared & POD_COLUMNS:
            self._own(POD_COLUMNS)
        alike: dict[int, tuple[PodInfo, list[int]]] = {}  # by the template's requests, whatever volumes its pods have
        key, epoch = self._key, self._epoch
        last = -1
        for row, pod in moves:
            if row != last:  # pods of one node mostly come together
                info, last = self.infos[row], row  # looked up again: a written node may be a copy by now
                if info.owner is not key or info.stamp < epoch or not info.has_own_pods:
                    info = self._with_own_pods(info)
                pods = info.pods
            if sign > 0:
                pods[pod.uid] = pod
            else:
                del pods[pod.uid]
            shape = pod.shape
            if shape.host_ports:
                (self._take_ports if sign > 0 else self._free_ports)(info, shape.host_ports)
            known = alike.get(shape.placement_id)
            if known is None:
                alike[shape.placement_id] = pod, [row]
            else:
                known[1].append(row)
        for pod, rows in alike.values():
            self._count_alike(pod.shape, rows, sign)
            self.pod_log.note_all(rows)

    def _count_alike(self, shape: PodShape, rows: list[int], sign: int) -> None:
        """Count pods of one shape, one per listed row."""
        amount: NDArray[np.int64] | int = sign
        index: NDArray[np.int64] | int
        distinct = set(rows)
        if len(distinct) == 1:
            index, amount = rows[0], sign * len(rows)
        elif len(distinct) == len(rows):
            index = np.array(rows)
        else:
            index, amount = np.unique(np.array(rows), return_counts=True)
            amount = amount * sign
        each = self._taken_by(shape)
        if isinstance(index, int):
            self._taken[:, index] += each * amount
        else:
            self._taken[:, index] += each[:, None] * amount

    def _taken_by(self, shape: PodShape) -> NDArray[np.int64]:
        """Return what one pod of this shape adds to the figures of its node."""
        # Shapes outlive tables and are shared with forks. The key is the tuple of names: the figures fit every table
        # with these resources in this order.
        taken: NDArray[np.int64] | None = shape.kept.get(self._names)
        if taken is None:
            requests = shape.requests
            for name in requests:
                self.resource_index(name)
            figures = [shape.non_zero_cpu, shape.non_zero_memory, 1, *(requests.get(name, 0) for name in self._names)]
            taken = shape.kept[self._names] = np.array(figures, np.int64)
        return taken

    def _touch_images(self, info: NodeInfo) -> None:
        """Mark the node's images: upstream copies their numbers again when its pods change."""
        if self.images.has(info.name):
            if self.shared & IMAGES:
                self._own(IMAGES)
            self.images.touch(info.name)

    def _count_pod(self, info: NodeInfo, pod: PodInfo, sign: int) -> None:
        if self.shared & POD_COLUMNS:
            self._own(POD_COLUMNS)
        shape, row = pod.shape, info.row
        taken = self._taken_by(shape)
        figures = self._taken[:, row]
        if sign > 0:
            figures += taken
        else:
            figures -= taken
        if self.shared & LOWEST_PRIORITY:
            self._own(LOWEST_PRIORITY)
        lowest = self.lowest_priority[row]
        if sign > 0:
            if pod.priority < lowest:
                self.lowest_priority[row] = pod.priority
        elif pod.priority == lowest and not any(other.priority == lowest for other in info.pods.values()):
            self.lowest_priority[row] = min((other.priority for other in info.pods.values()), default=NOBODY)

    def touch(
        self, info: NodeInfo, ports: tuple[HostPort, ...], *, started: bool = False, annotated: bool = False
    ) -> None:
        """Note an update of a pod that counts as before: upstream removes and adds it.

        ``started`` means that its start time changed, ``annotated`` that its annotations did.
        """
        self._touch_images(info)
        if started and info.row >= 0:
            self.start_log.note(info.row)
        are_ports_gone = not info.host_ports.issuperset(ports)  # a pod that shared one has removed it
        if are_ports_gone:
            self._take_ports(self._with_own_pods(info), ports)
        if (are_ports_gone or annotated) and info.row >= 0:
            self.pod_log.note(info.row)

    def _take_ports(self, info: NodeInfo, ports: tuple[HostPort, ...]) -> None:
        if self.shared & PORTS:
            self._own(PORTS)
        for port in ports:
            info.host_ports.add(port)
            self.port_users.setdefault(port[1:], set()).add(info.name)

    def _free_ports(self, info: NodeInfo, ports: tuple[HostPort, ...]) -> None:
        if self.shared & PORTS:
            self._own(PORTS)
        for port in ports:
            info.host_ports.discard(port)
            users = self.port_users.get(port[1:], set())
            if info.name in users and not any(other[1:] == port[1:] for other in info.host_ports):
                users.discard(info.name)
                if not users:
                    del self.port_users[port[1:]]


def _taint_key(taints: Iterable[Taint]) -> tuple[tuple[str, str, str], ...]:
    return tuple((taint.key, taint.value, taint.effect) for taint in taints)
