"""Records of a single instant: a dump, or a ``mooring.Cluster``, with a decision about each pending pod."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable

from mooring.api.version import __version__
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.core.config.load import config_from_dict
from mooring.core.config.wire import to_wire
from mooring.core.session import PluginReference
from mooring.record import entries
from mooring.record.files import FORMAT
from mooring.record.writer import RecordWriter

MAX_DECIDED = 200  # pending pods with a decision


def record_of(cluster: Cluster, plugins: Iterable[PluginReference] = ()) -> bytes:
    """Return a record of one instant: the cluster, and default decisions about pending pods."""
    scheduler = Scheduler(cluster, None, plugins)
    now, version = time.time(), scheduler.kubernetes_version
    header = entries.Header(
        format=FORMAT,
        mooring=__version__,
        kubernetes=version,
        source="question",
        started=now,
        configuration=to_wire(config_from_dict(None)),
    )
    file = io.BytesIO()
    writer = RecordWriter(file, header)
    writer.write_state(now, [*cluster.nodes, *cluster.state.objects, *cluster.pods, *cluster.pending])
    fork, waiting = cluster.fork(), cluster.pending[:MAX_DECIDED]
    for number, (pod, decided) in enumerate(zip(waiting, scheduler.on(fork).place(waiting), strict=True), 1):
        attempt = entries.Attempt(
            number,
            pod.key,
            pod.uid,
            decided.scheduler_name,  # of the profile that decided
            decided.outcome.value,
            decided.node or "",
            "" if decided.node else decided.message,
            nominated=decided.nominated_node,
        )
        writer.write([now + number], [attempt])
        place = "active" if decided.node else "unschedulable"
        failed = () if decided.node else (entries.Failed(pod.key, pod.uid, decided.reason, decided.message),)
        writer.write([now + number] * (1 + len(failed)), [*failed, entries.Moved(pod.key, pod.uid, place, "")])
    writer.close(now + len(cluster.pending) + 1)
    return file.getvalue()
