"""DefaultBinder (spec 2.18)."""

from __future__ import annotations

from typing import Any

from mooring.api.errors import ApiError
from mooring.core.framework.cycle_state import BINDING_ANNOTATIONS, CycleState
from mooring.core.framework.status import Code
from mooring.core.plugins.default_binder import DefaultBinder
from mooring.testing import make_cluster, make_handle, make_pod


class Writer:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.bound: list[tuple[Any, ...]] = []

    async def bind(self, pod: Any, node_name: str, *annotations: Any) -> None:
        if self.error is not None:
            raise self.error
        self.bound.append((pod.pod.name, node_name, *annotations))


class TestBinder:
    async def bind(self, writer: Any, **asked: str) -> Any:
        cluster, state = make_cluster(), CycleState()
        if asked:
            state.write(BINDING_ANNOTATIONS, asked)
        binder = DefaultBinder(None, make_handle(cluster, writer=writer))
        return await binder.bind(state, cluster.info(make_pod("p")), "a")

    async def test_binds(self) -> None:
        writer = Writer()
        assert (await self.bind(writer)).is_success
        assert writer.bound == [("p", "a")]

    async def test_annotations_that_a_plugin_asks_for_go_with_the_binding(self) -> None:
        writer = Writer()
        assert (await self.bind(writer, gpu="3")).is_success
        assert writer.bound == [("p", "a", {"gpu": "3"})]

    async def test_a_refusal_of_the_api_server_is_an_error_status(self) -> None:
        status = await self.bind(Writer(ApiError("pod p is already assigned", code=409)))
        assert status.code is Code.ERROR and status.message == "pod p is already assigned"

    async def test_without_a_writer_nothing_can_be_bound(self) -> None:
        assert (await self.bind(None)).code is Code.ERROR
