r"""GPU requests of pods and GPUs of nodes (annotations, labels and resources in use today), and the assignment of GPUs.

| | understood |
|---|---|
| a part of a GPU | the annotations ``alibabacloud.com/gpu-milli`` (of each GPU) and ``…/gpu-count`` of the pod |
| whole GPUs | the same with 1000, or the resource ``nvidia.com/gpu`` |
| models | the pod's annotation ``alibabacloud.com/gpu-card-model``: ``V100M16\|V100M32`` means one of the two |
| which GPUs a pod has | the pod's annotation ``alibabacloud.com/gpu-index``: ``2-3`` |
| a node's GPUs | its resource ``alibabacloud.com/gpu-count``, or ``nvidia.com/gpu`` |
| a node's model | its label ``alibabacloud.com/gpu-card-model``, or ``nvidia.com/gpu.product`` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from mooring.api.core import Node
from mooring.api.errors import ParseError
from mooring.api.quantity import value_of
from mooring.core.state.pod_info import PodInfo

WHOLE = 1000  # milli of one GPU
MILLI = "alibabacloud.com/gpu-milli"
COUNT = "alibabacloud.com/gpu-count"
MODEL = "alibabacloud.com/gpu-card-model"
INDEX = "alibabacloud.com/gpu-index"
GPU_ANNOTATIONS = (MILLI, COUNT, MODEL, INDEX)  # of pods
NVIDIA = "nvidia.com/gpu"
NVIDIA_MODEL = "nvidia.com/gpu.product"
MAX_GPUS = 64  # of one node


class GpuRequest(msgspec.Struct, frozen=True):
    """``count`` GPUs with ``milli`` left on each, of one of these models, in order; no models: any."""

    milli: int = 0
    count: int = 0
    models: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.milli * self.count

    @property
    def is_share(self) -> bool:
        """Report whether the pod takes only a part of each GPU."""
        return 0 < self.milli < WHOLE

    def __str__(self) -> str:
        return f"{self.count} × {self.milli}" if self.count != 1 else str(self.milli)


NO_GPU = GpuRequest()
Held = tuple[GpuRequest, tuple[int, ...] | None]
"""What a pod holds, and on which GPUs, if it says so."""


def request_of(pod: PodInfo) -> GpuRequest:
    """Return the pod's request; raise ParseError for invalid annotations."""
    request, _ = held_by(pod)
    if request.count:
        return request
    annotations = pod.pod.metadata.annotations
    if MILLI in annotations or COUNT in annotations:
        return _request(annotations.get(MILLI), annotations.get(COUNT), annotations.get(MODEL, ""))
    whole = pod.shape.scalar_requests.get(NVIDIA, 0)
    return _request(None, str(whole), annotations.get(MODEL, "")) if whole else NO_GPU


@lru_cache(maxsize=4096)
def _request(milli: str | None, count: str | None, models: str) -> GpuRequest:
    number = _whole_number(COUNT, "1" if count is None else count, 0, MAX_GPUS)
    if not number:
        return NO_GPU
    parts = _whole_number(MILLI, str(WHOLE) if milli is None else milli, 0, WHOLE)
    if not parts:
        return NO_GPU
    return GpuRequest(parts, number, tuple(model for model in models.split("|") if model))


def _whole_number(name: str, text: str, least: int, most: int) -> int:
    if text.isascii() and text.isdigit() and least <= int(text) <= most:
        return int(text)
    raise ParseError(f"annotation {name}: {text!r} is not a whole number from {least} to {most}")


def held_by(pod: PodInfo) -> Held:
    """Return what a running pod holds, nothing if its annotations are invalid; and on which GPUs, if it says so."""
    annotations, known = pod.pod.metadata.annotations, pod.annotated
    if known is None or known[0] is not annotations:
        known = pod.annotated = annotations, _read(annotations, pod)
    held: Held = known[1]
    return held


def _read(annotations: Mapping[str, str], pod: PodInfo) -> Held:
    get = annotations.get
    milli, count = get(MILLI), get(COUNT)
    if milli is None and count is None:
        whole = pod.shape.scalar_requests.get(NVIDIA, 0)
        if not whole:
            return NO_GPU, None
        count = str(whole)
    return _held(milli, count, get(MODEL, ""), get(INDEX))


@lru_cache(maxsize=4096)
def _held(milli: str | None, count: str | None, models: str, index: str | None) -> Held:
    try:
        request = _request(milli, count, models)
    except ParseError:
        return NO_GPU, None
    return request, None if index is None else indices_of(index)


@lru_cache(maxsize=4096)
def indices_of(text: str) -> tuple[int, ...] | None:
    """Return the GPUs that the annotation names, or None if it is missing."""
    parts = text.split("-")
    if not all(part.isascii() and part.isdigit() and int(part) < MAX_GPUS for part in parts):
        return None
    return tuple(int(part) for part in parts)


def index_text(indices: tuple[int, ...]) -> str:
    return "-".join(map(str, indices))


def gpus_of(node: Node) -> int:
    """Return how many GPUs the node has."""
    for name in (COUNT, NVIDIA):
        if name in node.status.allocatable:
            try:
                return max(0, min(MAX_GPUS, value_of(node.status.allocatable[name])))
            except ParseError:
                return 0  # the node table reports the invalid value
    return 0


def model_of(labels: Mapping[str, str]) -> str:
    return labels.get(MODEL) or labels.get(NVIDIA_MODEL, "")


# ---- assignment of GPUs on the pod's node -------------------------------------------------------------------------

CHOICE = "gpus/choice"
"""Key in the attempt's state for the :data:`Choose` of a plugin that chooses the GPU for pods that share one."""

Choose = Callable[[str, Sequence[int], GpuRequest], int]
"""(node name, milli left on each GPU, request) -> one GPU on which there is room."""


def fitting(left: Sequence[int], request: GpuRequest) -> list[int]:
    """Return the GPUs with enough room."""
    return [i for i, milli in enumerate(left) if milli >= request.milli]


def least_left(left: Sequence[int], request: GpuRequest) -> tuple[int, ...] | None:
    """Return the GPUs with the least left that is enough, the first of equal ones; None if there are too few."""
    found = fitting(left, request)
    if len(found) < request.count:
        return None
    if request.milli < WHOLE:
        found.sort(key=lambda i: (left[i], i))
    return tuple(sorted(found[: request.count]))
