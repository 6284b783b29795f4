"""The files and the order of arrivals of the fragmentation study (openb, USENIX ATC 2023).

A run takes the pods of a trace in random order, followed by random pods of the trace until they request 1.3 times the
GPUs of the cluster, or leaves some out if the trace requests more. Nodes get a random number before their names, which
decides between equal ones. All random numbers are those of a Go program with the same seed, in its order.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path

import msgspec

from mooring.api.errors import ConfigError, InputError
from mooring.core.plugins.gpus.columns import GpuColumns, safe_request_of
from mooring.core.plugins.gpus.fragmentation import PodKind, TypicalPods, count_kinds, typical_pods
from mooring.core.plugins.gpus.requests import NO_GPU, WHOLE, GpuRequest
from mooring.core.plugins.gpus.scoring import GoRandom
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import CPU

RATIO = 1.3  # requested GPUs relative to the cluster's
WATCHES = 10  # kinds that the study's program watches: each consumes one random number before nodes do


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


class OpenbRun(msgspec.Struct, frozen=True):
    """Input of one run of the study: pods in arrival order, nodes with prefixed names."""

    pods: list[TracePod]
    nodes: list[TraceNode]


def read_pods(path: Path) -> tuple[TracePod, ...]:
    """Read the pods of a list, once for the nodes, policies and random numbers of one run."""
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


def arrange(pods: Iterable[TracePod], nodes: Iterable[TraceNode], seed: int, ratio: float = RATIO) -> OpenbRun:
    """Return the run of this seed."""
    node_list = sorted(nodes, key=lambda node: node.name)
    by_name = sorted(pods, key=lambda pod: pod.name)
    gpus = sum(node.gpus for node in node_list)
    order, rng = _order([pod.kind.gpu for pod in by_name], seed, gpus, ratio)
    prefixes = _prefixes(rng, len(node_list))
    prefixed = [
        TraceNode(f"{prefix:04d}-{node.name}", node.cpu_milli, node.memory_mib, node.gpus, node.model)
        for prefix, node in zip(prefixes, node_list, strict=True)
    ]
    return OpenbRun([by_name[i] for i in order], sorted(prefixed, key=lambda node: node.name))


def node_prefixes(
    pods: Iterable[TracePod], seed: int, *, gpus: int, nodes: int, ratio: float = RATIO
) -> tuple[list[int], GoRandom]:
    """Return the numbers before this many nodes' names, sorted by name, and the generator for later random numbers."""
    by_name = sorted(pods, key=lambda pod: pod.name)
    rng = _order([pod.kind.gpu for pod in by_name], seed, gpus, ratio)[1]
    return _prefixes(rng, nodes), rng


def arrival_order(
    rows: Iterable[dict[str, str]], seed: int, *, gpus: int, ratio: float = RATIO
) -> list[dict[str, str]]:
    """Return the rows of a pod list in the study's order, for a cluster with this many GPUs; the example calls it."""
    by_name = sorted(rows, key=lambda row: row["name"])
    requests = [_kind_of(row, row["name"]).gpu for row in by_name]
    return [by_name[i] for i in _order(requests, seed, gpus, ratio)[0]]


def _order(pods: list[GpuRequest], seed: int, gpus: int, ratio: float) -> tuple[list[int], GoRandom]:
    """Return the indices, by name, of the arriving pods, and the generator for later random numbers."""
    rng, wanted = GoRandom(seed), ratio * WHOLE * gpus
    rng.int63()  # the study's program uses one number for a message
    order = list(range(len(pods)))
    rng.shuffle(order)
    total = sum(pod.total for pod in pods)
    if 0 < total < wanted:
        while True:
            i = rng.intn(len(pods))
            if total + pods[i].milli > wanted:  # of one GPU, also for pods with several: as in the study
                break
            order.append(i)
            total += pods[i].total
        return order, rng
    while total > wanted:
        total -= pods[order.pop(rng.intn(len(order)))].total
    return order, rng


def _prefixes(rng: GoRandom, nodes: int) -> list[int]:
    """Return the prefixes of the nodes' names; the generator has chosen the pods."""
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
    """Return the kind, or None if a value is not a number. A trace has many pods of few kinds."""
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
        raise InputError(f"{where}: {column}: {text!r}, expected a whole number")
    return number


@lru_cache(maxsize=4096)
def _whole_number(text: str) -> int:
    """Return -1 for an invalid number. Some programs write 1000.0."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return -1


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the lines of a CSV file with their positions."""
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


# ---- random numbers of the study: one Go generator, seeded once, for pods, nodes and everything after
# -----------------

SAMPLED = 100  # one of this many attempts is measured, chosen at random by the study's scheduler


class StudyLotsArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The trace of the pods, with the study's columns, and the seed of the run."""

    pods_file: str
    seed: int


class StudyLots:
    """Random choices of the study's program. Every attempt must be reported, because each one consumes numbers."""

    def __init__(self, args: StudyLotsArgs, cluster: ClusterState) -> None:
        try:
            self._pods = read_pods(Path(args.pods_file))
        except InputError as error:
            raise ConfigError(f"args: lots.podsFile: {error}") from None
        self._seed, self._cluster = args.seed, cluster
        self._rng: GoRandom | None = None
        self._is_unplaced = False  # the pod of the last attempt, as far as is known

    def attempt(self) -> None:
        """Begin an attempt. If the last pod was not placed, preemption has chosen its first node."""
        if self._is_unplaced:
            self.pick(len(self._cluster.table.infos))
        self.pick(SAMPLED)
        self._is_unplaced = True

    def placed(self) -> None:
        self._is_unplaced = False

    def pick(self, n: int) -> int:
        """Return one of n."""
        if self._rng is None:  # the nodes exist by now
            table = self._cluster.table
            gpus = int(GpuColumns.of(table).capacity.sum())
            _, self._rng = node_prefixes(self._pods, self._seed, gpus=gpus, nodes=len(table.infos))
        return self._rng.intn(n)


# ---- source of typical pods: a list in the configuration, a file, or the running pods
# ----------------------------------


class TypicalPodArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """One kind of pod, and its relative frequency."""

    count: int = 1
    cpu_milli: int = 0
    gpu_milli: int = 0
    gpu_count: int = 1
    models: tuple[str, ...] = ()

    def kind(self) -> PodKind:
        gpu = GpuRequest(self.gpu_milli, self.gpu_count, self.models) if self.gpu_milli else NO_GPU
        return PodKind(self.cpu_milli, gpu)


class TypicalPodsSource:
    """Provides the typical pods. ``version`` changes whenever they do."""

    def __init__(self, listed: tuple[TypicalPodArgs, ...], file: str, cluster: ClusterState) -> None:
        self._cluster = cluster
        self.version = 0
        self._seen = 0  # the number of pods, as a power of two, at the last count
        self._learns = not listed and not file
        counts: Counter[PodKind] = Counter()
        if listed:
            for each in listed:
                counts[each.kind()] += each.count
        elif file:
            try:
                counts = count_kinds(pod.kind for pod in read_pods(Path(file)))
            except InputError as error:
                raise ConfigError(f"args: typicalPodsFile: {error}") from None
        self.pods: TypicalPods = typical_pods(counts)

    def refresh(self) -> None:
        """Count the cluster's pods again if their number has doubled or halved since the last time."""
        if not self._learns:
            return
        size = self._cluster.num_pods.bit_length()
        if size == self._seen:
            return
        self._seen, self.version = size, self.version + 1
        self.pods = typical_pods(count_kinds(map(kind_of, self._cluster.pods())))


def kind_of(pod: PodInfo) -> PodKind:
    return PodKind(pod.shape.requests.get(CPU, 0), safe_request_of(pod))
