"""Which nodes' pods have changed since one last looked: what counts per node are kept up to date with."""

from __future__ import annotations

from mooring.state.node_info import NodeInfo
from mooring.state.node_table import NodeTable
from mooring.state.pod_info import PodInfo


class PodChanges:
    """Remembers the pods of every node that it reported."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._seen = (-1, -1, 0)  # layout, epoch of the log, position in it
        self._pods: dict[str, list[PodInfo]] = {}

    def take(self) -> tuple[list[NodeInfo], list[str]]:
        """Nodes whose pods are not what they were at the last call, and names of nodes that have gone."""
        table = self._table
        now = (table.generation, table.log_epoch, len(table.pod_log))
        seen, self._seen = self._seen, now
        if now == seen:
            return [], []
        if now[:2] == seen[:2]:
            candidates = [table.infos[row] for row in dict.fromkeys(table.pod_log[seen[2] :])]
            gone: list[str] = []
        else:
            candidates = table.infos
            known = {info.name for info in table.infos}
            gone = [name for name in self._pods if name not in known]
        changed = []
        for info in candidates:
            pods = list(info.pods.values())
            if self._pods.get(info.name) != pods:  # by identity: a PodInfo equals only itself
                self._pods[info.name] = pods
                changed.append(info)
        for name in gone:
            del self._pods[name]
        return changed, gone
