"""Where the typical pods come from: a list in the configuration, a file, or the pods that the cluster runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from mooring.errors import ConfigError, InputError
from mooring.gpus.columns import safe_request_of
from mooring.gpus.fragmentation import PodKind, TypicalPods, count_kinds, typical_pods
from mooring.gpus.openb import read_pods
from mooring.gpus.requests import NO_GPU, GpuRequest
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo
from mooring.state.requests import CPU


class TypicalPodArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """One kind of pod, and how many of them there are for one of another kind."""

    count: int = 1
    cpu_milli: int = 0
    gpu_milli: int = 0
    gpu_count: int = 1
    models: tuple[str, ...] = ()

    def kind(self) -> PodKind:
        gpu = GpuRequest(self.gpu_milli, self.gpu_count, self.models) if self.gpu_milli else NO_GPU
        return PodKind(self.cpu_milli, gpu)


class TypicalPodsSource:
    """Says which pods are typical. ``version`` is another number whenever they have changed."""

    def __init__(self, listed: tuple[TypicalPodArgs, ...], file: str, cluster: Cluster) -> None:
        self._cluster = cluster
        self.version = 0
        self._seen = 0  # the number of pods, in powers of two, that the typical ones were counted among
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
        """Count the cluster's pods anew if there are twice, or half, as many as the last time."""
        if not self._learns:
            return
        size = self._cluster.num_pods.bit_length()
        if size == self._seen:
            return
        self._seen, self.version = size, self.version + 1
        self.pods = typical_pods(count_kinds(map(kind_of, self._cluster.pods())))


def kind_of(pod: PodInfo) -> PodKind:
    return PodKind(pod.shape.requests.get(CPU, 0), safe_request_of(pod))
