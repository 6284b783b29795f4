"""Which nodes' pods have changed since one last looked: what counts per node are kept up to date with."""

from __future__ import annotations

from mooring.state.change_log import EVERYTHING
from mooring.state.node_info import NodeInfo
from mooring.state.node_table import NodeTable
from mooring.state.pod_info import PodInfo


class PodChanges:
    """Remembers the pods of every node that it reported."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._changes = table.pod_log.cursor()
        self._pods: dict[str, list[PodInfo]] = {}

    def take(self) -> tuple[list[NodeInfo], list[str]]:
        """Nodes whose pods are not what they were at the last call, and names of nodes that have gone."""
        table, rows = self._table, self._changes.take()
        gone: list[str] = []
        if rows is EVERYTHING:
            candidates = table.infos
            known = {info.name for info in table.infos}
            gone = [name for name in self._pods if name not in known]
        else:
            candidates = [table.infos[row] for row in dict.fromkeys(rows)]
        changed = []
        for info in candidates:
            pods = list(info.pods.values())
            if self._pods.get(info.name) != pods:  # by identity: a PodInfo equals only itself
                self._pods[info.name] = pods
                changed.append(info)
        for name in gone:
            del self._pods[name]
        return changed, gone
