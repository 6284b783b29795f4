"""Which plugins refused a pod."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.engine.decision import Decision
from mooring.framework.status import Status


def refusers(decision: Decision) -> list[str]:
    """The plugins that refused the pod somewhere."""
    groups = decision.statuses.groups() if decision.statuses is not None else ()
    named = (plugin for status, _ in groups for plugin in signers(status, decision))
    return list(dict.fromkeys((*named, *sorted(decision.unschedulable_plugins))))


def signers(status: Status, decision: Decision) -> Sequence[str]:
    """Who gave the status. It is unsigned where several plugins left no node together."""
    return (status.plugin,) if status.plugin else sorted(decision.unschedulable_plugins)
