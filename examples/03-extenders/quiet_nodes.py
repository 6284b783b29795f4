"""A mooring plugin, nothing special about it: served as an extender it works for any kube-scheduler.

mooring extender serve --plugin quiet_nodes.py --args '{label: maintenance}'
"""

from __future__ import annotations

from mooring import sdk


class QuietNodesArgs(sdk.Args):
    label: str = "maintenance"


class QuietNodes(sdk.NodeFilter, sdk.NodeScore):
    """Keep pods off nodes that wait for maintenance, and prefer those whose turn comes late.

    The label's value is the number of hours until then; evicting pods does not postpone it.
    """

    name = "QuietNodes"
    args = QuietNodesArgs
    traits = sdk.Traits(filter_reads=sdk.Reads.NODE, score_reads=sdk.Reads.NODE)

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        hours = self.hours(node)
        if hours is not None and hours < 1:
            return sdk.unresolvable("node(s) are about to be maintained")
        return sdk.SUCCESS

    def score(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> int:
        hours = self.hours(node)
        return sdk.MAX_NODE_SCORE if hours is None else min(hours, sdk.MAX_NODE_SCORE)

    def hours(self, node: sdk.NodeView) -> int | None:
        value = node.labels.get(self.args.label)
        return int(value) if value is not None and value.isdigit() else None
