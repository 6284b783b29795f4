"""The files and the order of arrivals of the fragmentation study (openb, USENIX ATC 2023).

A run takes the pods of a trace in random order. It goes on with pods that are drawn from the trace until they ask for
1.3 times the GPUs of the cluster, or leaves some out if the trace asks for more. Nodes get a random number before
their names, which decides between equal ones. All draws are those of a Go program with the same seed, in its order.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path

import msgspec

from mooring.errors import InputError
from mooring.gpus.fragmentation import PodKind
from mooring.gpus.go_random import GoRandom
from mooring.gpus.requests import NO_GPU, WHOLE, GpuRequest

RATIO = 1.3  # arrivals, in GPUs, of the cluster's
WATCHES = 10  # kinds of objects that the study's program watches: each draws one number, for how long, before nodes do


class TracePod(msgspec.Struct, frozen=True):
    """A line of a pod list."""

    name: str
    memory_mib: int
    kind: PodKind


class TraceNode(msgspec.Struct, frozen=True):
    """A line of a node list."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class Run(msgspec.Struct, frozen=True):
    """What one run of the study plays: pods in the order in which they come, nodes with their prefixed names."""

    pods: list[TracePod]
    nodes: list[TraceNode]


def read_pods(path: Path) -> tuple[TracePod, ...]:
    """The pods of a list. Nodes, policies and lots of one run ask for the same one: it is read once."""
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    return _read_pods(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=1)
def _read_pods(path: Path, changed_ns: int, size: int) -> tuple[TracePod, ...]:
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    return tuple(_pod(row, where) for where, row in _rows(path, columns))


def read_nodes(path: Path) -> list[TraceNode]:
    return [
        TraceNode(
            row["sn"],
            _number(row, "cpu_milli", where),
            _number(row, "memory_mib", where),
            _number(row, "gpu", where),
            row.get("model") or "",
        )
        for where, row in _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu"))
    ]


def arrange(pods: Iterable[TracePod], nodes: Iterable[TraceNode], seed: int, ratio: float = RATIO) -> Run:
    """The run of this seed."""
    node_list = sorted(nodes, key=lambda node: node.name)
    by_name = sorted(pods, key=lambda pod: pod.name)
    gpus = sum(node.gpus for node in node_list)
    order, rng = _order([pod.kind.gpu for pod in by_name], seed, gpus, ratio)
    prefixes = _prefixes(rng, len(node_list))
    prefixed = [
        TraceNode(f"{prefix:04d}-{node.name}", node.cpu_milli, node.memory_mib, node.gpus, node.model)
        for prefix, node in zip(prefixes, node_list, strict=True)
    ]
    return Run([by_name[i] for i in order], sorted(prefixed, key=lambda node: node.name))


def node_prefixes(
    pods: Iterable[TracePod], seed: int, *, gpus: int, nodes: int, ratio: float = RATIO
) -> tuple[list[int], GoRandom]:
    """The numbers before the names of so many nodes, sorted by name; and the generator, for what is drawn next."""
    by_name = sorted(pods, key=lambda pod: pod.name)
    rng = _order([pod.kind.gpu for pod in by_name], seed, gpus, ratio)[1]
    return _prefixes(rng, nodes), rng


def arrival_order(
    rows: Iterable[dict[str, str]], seed: int, *, gpus: int, ratio: float = RATIO
) -> list[dict[str, str]]:
    """The rows of a pod list in the order of the study, for a cluster with so many GPUs."""
    by_name = sorted(rows, key=lambda row: row["name"])
    requests = [_kind_of(row, row["name"]).gpu for row in by_name]
    return [by_name[i] for i in _order(requests, seed, gpus, ratio)[0]]


def _order(pods: list[GpuRequest], seed: int, gpus: int, ratio: float) -> tuple[list[int], GoRandom]:
    """The places in a list, sorted by name, of the pods that arrive; and the generator, for what is drawn next."""
    rng, wanted = GoRandom(seed), ratio * WHOLE * gpus
    rng.int63()  # the study's program draws one number for a message
    order = list(range(len(pods)))
    rng.shuffle(order)
    total = sum(pod.total for pod in pods)
    if 0 < total < wanted:
        while True:
            i = rng.intn(len(pods))
            if total + pods[i].milli > wanted:  # of one GPU, also for pods that ask for several: as the study does
                break
            order.append(i)
            total += pods[i].total
        return order, rng
    while total > wanted:
        total -= pods[order.pop(rng.intn(len(order)))].total
    return order, rng


def _prefixes(rng: GoRandom, nodes: int) -> list[int]:
    """What stands before the names of the nodes; the generator has drawn the pods."""
    for _ in range(WATCHES):
        rng.int63()
    return rng.perm(nodes)


def _pod(row: dict[str, str], where: str) -> TracePod:
    return TracePod(row["name"], _number(row, "memory_mib", where), _kind_of(row, where))


def _kind_of(row: dict[str, str], where: str) -> PodKind:
    texts = row.get("cpu_milli") or "0", row.get("num_gpu") or "0", row.get("gpu_milli") or "0"
    found = _kind(*texts, row.get("gpu_spec") or "")
    if found is None:
        for column in ("cpu_milli", "num_gpu", "gpu_milli"):
            _number(row, column, where)
    assert found is not None, "one of the numbers is none"
    return found


@lru_cache(maxsize=4096)
def _kind(cpu_milli: str, num_gpu: str, gpu_milli: str, models: str) -> PodKind | None:
    """None if one of these is no number. A trace has many pods of few kinds."""
    cpu, count, milli = map(_whole_number, (cpu_milli, num_gpu, gpu_milli))
    if cpu < 0 or count < 0 or milli < 0:
        return None
    if not count or not milli:
        return PodKind(cpu, NO_GPU)
    return PodKind(cpu, GpuRequest(min(milli, WHOLE), count, tuple(each for each in models.split("|") if each)))


def _number(row: dict[str, str], column: str, where: str) -> int:
    text = row.get(column) or "0"
    number = _whole_number(text)
    if number < 0:
        raise InputError(f"{where}: {column}: {text!r} where a whole number is expected")
    return number


@lru_cache(maxsize=4096)
def _whole_number(text: str) -> int:
    """-1 for what is none. Some programs write 1000.0."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return -1


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """The lines of a CSV file with where each stands."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            names = next(reader, [])
            missing = [column for column in columns if column not in names]
            if missing:
                raise InputError(f"{path}: no column {', '.join(missing)}; found {', '.join(names)}")
            for values in filter(None, reader):
                yield f"{path}, line {reader.line_num}", dict(zip_longest(names, values, fillvalue=""))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file") from None
