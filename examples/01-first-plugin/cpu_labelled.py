"""CpuLabelled: only nodes labelled cpu=true take pods of this profile."""

from __future__ import annotations

from collections.abc import Sequence

from mooring import sdk


class CpuLabelled(sdk.NodeFilter):
    """Refuses every node without the label, in the words of the sample that it is modelled on.

    A node that is added or changes can lift it.
    """

    name = "CpuLabelled"
    traits = sdk.Traits(filter_reads=sdk.Reads.NODE)  # the node object alone decides

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        if node.labels.get("cpu") == "true":
            return sdk.SUCCESS
        return sdk.unschedulable(f"Node: {node.name}")

    def events_to_register(self) -> Sequence[sdk.EventRegistration]:
        return (sdk.NODE_CHANGED,)
