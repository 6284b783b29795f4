"""``mooring replay``: list what a record holds, look at any time of it, and make any of its decisions again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from mooring.api.errors import UsageError
from mooring.api.text import nearest
from mooring.api.times import format_micro_time, human_duration
from mooring.cli.options import Integers, examples, plugin_option
from mooring.cli.output import emit, output_option, print_facts, print_table
from mooring.cli.streams import say

if TYPE_CHECKING:
    from mooring.record.entries import Attempt
    from mooring.record.moment import Moment, QueuedPod
    from mooring.record.reader import Record

MOST_COMPARED = 20_000  # pods, for suggestions of similar names


@click.command(
    epilog=examples(
        "mooring replay run.mrec",
        "mooring replay run.mrec --pod shop/web-7 -o json",
        "mooring replay run.mrec --at 90s",
        "mooring replay run.mrec --open 17",
    )
)
@click.argument("file", metavar="FILE")
@click.option("--at", metavar="TIME", help="Show the cluster and the queue at this time.")
@click.option("--open", "number", type=Integers(1), metavar="N", help="Repeat attempt N and explain it.")
@click.option("--pod", metavar="POD", help="Show only attempts of this namespace/name.")
@click.option("--since", metavar="TIME", help="Show only attempts from this time on.")
@click.option("--until", metavar="TIME", help="Show only attempts up to this time.")
@click.option("--limit", type=Integers(0), default=1000, show_default=True, help="Show N attempts; 0: all.")
@plugin_option
@click.option("--top", type=Integers(1), default=5, show_default=True, help="Show N nodes with --open.")
@output_option()
def replay(
    file: str,
    at: str | None,
    number: int | None,
    pod: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    plugins: tuple[str, ...],
    top: int,
    output: str,
) -> int:
    """List the attempts of a record, look at any time of it, or make one of its decisions again.

    TIME is a timestamp such as 2026-01-31T12:00:00Z, or a duration such as 90s from the record's beginning.

    With --open, the cluster is as the attempt found it, and the recorded configuration decides again. Exit code 0: the
    decision is the recorded one; 1: it is another; 2: the input cannot be used.
    """
    from mooring.record.files import file_and_time
    from mooring.record.reader import Record, record_time

    whole, time = file_and_time(file)
    if time and os.path.exists(whole):
        raise UsageError(f"{file}: expected {whole} --at {time}")
    if at is not None and number is not None:
        raise UsageError("--at and --open exclude each other; give one of them")
    for name, given in (("--pod", pod), ("--since", since), ("--until", until)):
        if given is not None and (at is not None or number is not None):
            other = "--at" if number is None else "--open"
            raise UsageError(f"{name} chooses from the list of attempts, which {other} does not show; give one of them")
    with Record.open(file, plugins) as record:
        if number is not None:
            return _open(record, number, top, output)
        if at is not None:
            moment = record.moment(record_time(at, record))
            value = None if output == "table" else _moment(record, moment)
            emit(value, output, lambda to: _draw_moment(to, moment))
            return 0
        span = _time(since, record), _time(until, record)
        _list(record, pod, span, limit, output)
        return 0


def _time(text: str | None, record: Record) -> float | None:
    from mooring.record.reader import record_time

    return None if text is None else record_time(text, record)


# ---- the list --------------------------------------------------------------------------------------------------------


def _check_known(wanted: str, record: Record) -> None:
    """Raise UsageError if the record has no attempt at the pod."""
    keys = dict.fromkeys(attempt.key for _, attempt in record.attempts())
    if wanted in keys:
        return
    name = wanted.partition("/")[2]
    near = [key for key in keys if key.partition("/")[2] == name][:3]
    near = near or [each for each in (nearest(wanted, islice(keys, MOST_COMPARED)),) if each]
    hint = f"; similar ones: {', '.join(near)}" if near else ""
    raise UsageError(f"--pod: {record.name} has no attempt at a pod {wanted}{hint}")


def _list(record: Record, pod: str | None, span: tuple[Any, Any], limit: int, output: str) -> None:
    key = None if pod is None else pod if "/" in pod else f"default/{pod}"
    found = list(islice(_chosen(record, key, *span), limit + 1 if limit else None))
    if key is not None and not found:
        _check_known(key, record)
    has_more = bool(limit) and len(found) > limit
    found = found[:limit] if limit else found
    value = {
        "record": _about(record),
        "attempts": [_plain(time, attempt) for time, attempt in found],
    }
    emit(value, output, lambda to: _draw_list(to, record, found, has_more))


def _chosen(record: Record, pod: str | None, since: Any, until: Any) -> Iterable[tuple[float, Attempt]]:
    for time, attempt in record.attempts():
        if until is not None and time > until:
            return
        if (since is None or time >= since) and pod in (None, attempt.key):
            yield time, attempt


def _about(record: Record) -> dict[str, Any]:
    header = record.header
    return {
        "source": header.source,
        "mooring": header.mooring,
        "kubernetes": header.kubernetes,
        "from": format_micro_time(record.first_time),
        "to": format_micro_time(record.last_time),
        "attempts": record.num_attempts,
        "bytes": record.size,
        "isComplete": record.is_complete,
    }


def _plain(time: float, attempt: Attempt) -> dict[str, Any]:
    """Return an attempt with the decision log's names."""
    return {
        "number": attempt.number,
        "time": format_micro_time(time),
        "pod": attempt.key,
        "uid": attempt.uid,
        "profile": attempt.profile,
        "attempt": attempt.tries,
        "outcome": attempt.outcome,
        "node": attempt.node,
        "message": attempt.message,
        "plugins": list(attempt.plugins),
        "nominatedNode": attempt.nominated or "",
        "victims": list(attempt.victims),
        "microseconds": round(attempt.seconds * 1e6),
        "nodes": attempt.num_nodes,
        "evaluatedNodes": attempt.evaluated,
        "feasibleNodes": attempt.feasible,
    }


def _draw_list(to: Console, record: Record, found: list[tuple[float, Attempt]], has_more: bool) -> None:
    about = _about(record)
    passed = human_duration(record.last_time - record.first_time)
    to.print(
        f"Recorded by a {about['source']}, Kubernetes {about['kubernetes']}: {passed} from {about['from']}, "
        f"{about['attempts']} attempts, {_bytes(record.size)}.",
        markup=False,
    )
    if not found:
        return
    to.print()
    rows = [
        [
            str(attempt.number),
            f"+{time - record.first_time:.3f}s",
            attempt.key,
            str(attempt.tries),
            attempt.node or attempt.outcome,
            f"{attempt.feasible} of {attempt.num_nodes}" if attempt.evaluated or not attempt.node else "",
            _why(attempt),
        ]
        for time, attempt in found
    ]
    print_table(to, ["#", "TIME", "POD", "TRY", "NODE", "FEASIBLE", "WHY"], rows)
    if has_more:
        to.print(f"These are the first {len(found)}; --limit 0 shows all, --since and --pod choose.", markup=False)


def _why(attempt: Attempt) -> str:
    if attempt.node:
        return ""
    if attempt.victims:
        return f"evicts {', '.join(attempt.victims)} from {attempt.nominated}"
    return attempt.message


def _bytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / 1024:.1f} KiB"


# ---- a time ----------------------------------------------------------------------------------------------------------


def _moment(record: Record, moment: Moment) -> dict[str, Any]:
    from mooring.core.state.requests import written

    rows = moment.state.nodes()
    amounts = {name: (rows.requested(name), rows.allocatable(name)) for name in ("cpu", "memory")}
    nominations = moment.nominations()
    return {
        "record": _about(record),
        "time": format_micro_time(moment.time),
        "nodes": [
            {
                "name": info.name,
                "pods": int(rows.pod_count[i]),
                "requested": {name: written(name, int(amounts[name][0][i])) for name in amounts},
                "allocatable": {name: written(name, int(amounts[name][1][i])) for name in amounts},
                "unschedulable": bool(rows.unschedulable[i]),
            }
            for i, info in enumerate(rows.infos)
        ],
        "pods": [{"pod": info.pod.key, "node": info.pod.spec.node_name} for info in moment.state.pods()],
        "queue": [_waiting(each) for each in _in_order(moment)],
        "nominated": [
            {"pod": info.pod.key, "node": node}
            for node in moment.nominated
            for info in nominations.nominated_pods(node)
        ],
    }


def _in_order(moment: Moment) -> list[QueuedPod]:
    places = {"in-flight": 0, "active": 1, "backoff": 2, "unschedulable": 3, "gated": 4}
    return sorted(moment.queue.values(), key=lambda each: (places.get(each.place, 5), each.since))


def _waiting(each: QueuedPod) -> dict[str, Any]:
    return {
        "pod": each.key,
        "queue": each.place,
        "since": format_micro_time(each.since),
        "added": format_micro_time(each.added),
        "attempts": each.tries,
        "movedBy": each.event,
        "cause": each.cause,
        "plugins": list(each.plugins),
        "message": each.message,
    }


def _draw_moment(to: Console, moment: Moment) -> None:
    from mooring.core.cluster import nodes_table

    table = nodes_table(moment.state)
    to.print(f"{format_micro_time(moment.time)}, {moment.time - moment.header.started:.3f}s after the beginning")
    to.print()
    print_table(to, [name.upper() for name in table.columns], [[str(cell) for cell in row] for row in table.rows])
    waiting = _in_order(moment)
    to.print()
    if not waiting:
        to.print("No pod waits.")
        return
    rows = [
        [
            each.key,
            each.place,
            human_duration(moment.time - each.since),
            str(each.tries),
            each.event + (f" ({each.cause})" if each.cause else ""),
            each.message,
        ]
        for each in waiting
    ]
    print_table(to, ["POD", "QUEUE", "SINCE", "ATTEMPTS", "MOVED BY", "WHY"], rows)


# ---- an attempt ------------------------------------------------------------------------------------------------------


def _open(record: Record, number: int, top: int, output: str) -> int:
    from mooring.core.explain.why import draw

    moment = record.attempt(number)
    attempt = moment.attempt
    assert attempt is not None
    found = moment.explain()
    difference = moment.difference(found)
    value = {
        "record": _about(record),
        "attempts": [_plain(moment.time, attempt)],
        "difference": difference,
        "explanation": found.to_dict(),
    }

    def shown(to: Console) -> None:
        when = f"{format_micro_time(moment.time)}, {moment.time - record.first_time:.3f}s after the beginning"
        print_facts(to, {"Attempt": f"{number}, try {attempt.tries} of {attempt.key}", "Time": when})
        to.print()
        draw(to, found, top)

    emit(value, output, shown)
    if moment.lacks_answers:
        say(
            "warning: extenders were asked about this attempt; what they answered is not in the record, and the "
            "decision was made without them"
        )
    if difference:
        say(f"mooring: the recorded decision was another: {difference}")
    return 1 if difference else 0
