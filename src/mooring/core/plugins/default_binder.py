"""DefaultBinder: binds the pod through the API server."""

from __future__ import annotations

from typing import ClassVar

from mooring.api.errors import ApiError
from mooring.core.framework.cycle_state import BINDING_ANNOTATIONS, CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.state.pod_info import PodInfo


class DefaultBinder:
    """Posts a Binding through the handle's writer, with the annotations that plugins added."""

    name: ClassVar[str] = "DefaultBinder"

    def __init__(self, args: None, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        if self._handle.writer is None:
            return Status.error("no API server to bind with")
        annotations = state.read(BINDING_ANNOTATIONS)
        try:
            if annotations:
                await self._handle.writer.bind(pod, node_name, annotations)
            else:
                await self._handle.writer.bind(pod, node_name)
        except ApiError as error:
            return Status.error(str(error))
        return SUCCESS
