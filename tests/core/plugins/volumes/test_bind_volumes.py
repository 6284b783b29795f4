"""PreBind: the wish is written, then watched until the claims are bound, or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mooring.api.core import Node
from mooring.api.errors import ApiError
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import PluginMeters
from mooring.core.framework.status import Code
from mooring.core.plugins.volumes.bind_volumes import VolumeWriter

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = "volume.kubernetes.io/selected-node"


class FakeWriter:
    """An API server with whole objects, a clock that moves only during sleeps, and the events of that time."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.written: list[tuple[str, str, dict[str, Any]]] = []
        self.refuse: dict[str, ApiError] = {}
        self.later: dict[float, Callable[[], None]] = {}  # seconds after the start -> what happens
        self.start = world.clock.now()
        self.exists = True
        self.slept: list[float] = []
        self.watch_is_behind = False

    async def bind(self, pod: Any, node_name: str) -> None:
        raise AssertionError("not asked for here")

    async def update(
        self, kind: type[Any], key: str, resource_version: str, mutate: Callable[[dict[str, Any]], None]
    ) -> Any:
        if key in self.refuse:
            raise self.refuse[key]
        stored = self.world.cluster.objects.get(kind, key)
        assert stored.metadata.resource_version == resource_version
        body = msgspec.to_builtins(stored) | {"unknownField": "kept"}
        mutate(body)
        self.written.append((kind.__name__, key, body))
        self.world._version += 1
        body["metadata"]["resourceVersion"] = str(self.world._version)
        fresh = msgspec.convert(body, kind)
        if not self.watch_is_behind:
            self.world.cluster.put(fresh)
        return fresh

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.world.clock.advance(seconds)
        for when in [when for when in self.later if self.start + when <= self.world.clock.now()]:
            self.later.pop(when)()

    def pod_exists(self, namespace: str, name: str) -> bool:
        assert (namespace, name) == ("ns", "pod")
        return self.exists


class Story:
    """A pod that is reserved on ``a``: ``static`` takes an existing volume, ``new`` is to be provisioned."""

    def __init__(self, world: Any, *claims: str, timeout_s: int = 10) -> None:
        self.world = world
        world.node("a")
        world.storage_class("slow")
        world.storage_class("dynamic", provisioner="csi.x")
        world.volume("pv", on=["a"])
        world.claim("static")
        world.claim("new", cls="dynamic")
        self.writer = world.handle.writer = FakeWriter(world)
        self.plugin, self.state = world.binding(timeout_s=timeout_s), CycleState()
        self.pod = world.cluster.info(world.pod(*claims))
        assert world.judge(self.plugin, self.pod.pod, self.state) == {}
        assert self.plugin.reserve(self.state, self.pod, "a").is_success

    async def bind(self) -> Any:
        return await self.plugin.pre_bind(self.state, self.pod, "a")

    def put(self, kind: type[Any], key: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Another client changes an object."""
        self.world._version += 1
        body = msgspec.to_builtins(self.world.cluster.objects.get(kind, key))
        body["metadata"]["resourceVersion"] = str(self.world._version)
        change(body)
        self.world.cluster.put(msgspec.convert(body, kind))

    def controller_binds(self, claim: str, volume: str) -> None:
        def change(body: dict[str, Any]) -> None:
            body["spec"]["volumeName"] = volume
            body["metadata"].setdefault("annotations", {}).update(BOUND)

        self.put(PersistentVolumeClaim, f"ns/{claim}", change)


def test_the_fake_is_what_the_plugin_asks_for(world: Any) -> None:
    assert isinstance(FakeWriter(world), VolumeWriter)


async def test_both_wishes_are_written_and_awaited(world: Any) -> None:
    story = Story(world, "new", "static")
    story.writer.later[2.5] = lambda: story.controller_binds("static", "pv")
    story.writer.later[4.5] = lambda: (world.volume("made", cls="dynamic"), story.controller_binds("new", "made"))
    status = await story.bind()
    assert status.is_success
    assert story.writer.slept == [1.0] * 5  # the first look is after a second
    (kind1, key1, volume), (kind2, key2, claim) = story.writer.written
    assert (kind1, key1, kind2, key2) == ("PersistentVolume", "pv", "PersistentVolumeClaim", "ns/new")
    ref = volume["spec"]["claimRef"]
    assert (ref["kind"], ref["apiVersion"], ref["namespace"], ref["name"]) == (
        "PersistentVolumeClaim",
        "v1",
        "ns",
        "static",
    )
    assert ref["uid"] == "PersistentVolumeClaim-static"
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert claim["metadata"]["annotations"] == {SELECTED: "a"}
    assert volume["unknownField"] == claim["unknownField"] == "kept"


async def test_bound_claims_need_no_writing(world: Any) -> None:
    story = Story(world, "static")
    story.state = CycleState()
    story.controller_binds("static", "pv")
    world.judge(story.plugin, story.pod.pod, story.state)
    story.plugin.reserve(story.state, story.pod, "a")
    assert (await story.bind()).is_success
    assert story.writer.written == [] and story.writer.slept == []


@pytest.mark.parametrize("timeout_s", [0, 3])
async def test_no_claim_is_bound_in_time(world: Any, timeout_s: int) -> None:
    story = Story(world, "static", timeout_s=timeout_s)
    status = await story.bind()
    assert (status.code, status.message) == (Code.ERROR, "binding volumes: context deadline exceeded")
    assert story.writer.slept == [1.0] * timeout_s


def _reset_claim_ref(story: Story) -> None:
    story.put(PersistentVolume, "pv", lambda body: body["spec"].pop("claimRef"))


def _drop_annotations(story: Story) -> None:
    story.put(PersistentVolumeClaim, "ns/new", lambda body: body["metadata"].pop("annotations"))


def _choose_another_node(story: Story) -> None:
    story.put(PersistentVolumeClaim, "ns/new", lambda body: body["metadata"].update(annotations={SELECTED: "b"}))


def _made_elsewhere(story: Story) -> None:
    story.world.volume("made", cls="dynamic", on=["b"])
    story.controller_binds("new", "made")


def _relabel(story: Story) -> None:
    story.world.put(Node, "a", metadata={"labels": {"host": "renamed"}})


@pytest.mark.parametrize(
    ("claim", "happens", "text"),
    [
        pytest.param(
            "static",
            lambda s: s.world.cluster.remove_node("a"),
            'failed to get node "a": node "a" not found',
            id="the node goes",
        ),
        pytest.param(
            "static",
            lambda s: setattr(s.writer, "exists", False),
            'pod does not exist any more: pod "pod" not found',
            id="the pod goes",
        ),
        pytest.param(
            "static",
            lambda s: s.world.cluster.objects.remove(PersistentVolume, "pv"),
            'failed to check binding: persistentvolumes "pv" not found',
            id="the volume goes",
        ),
        pytest.param(
            "static",
            lambda s: s.world.cluster.objects.remove(PersistentVolumeClaim, "ns/static"),
            'failed to check binding: persistentvolumeclaims "ns/static" not found',
            id="the claim goes",
        ),
        pytest.param("static", _reset_claim_ref, 'ClaimRef got reset for pv "pv"', id="the controller unbinds"),
        pytest.param(
            "static",
            _relabel,
            'pv "pv" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="the node is relabelled",
        ),
        pytest.param(
            "new",
            lambda s: s.world.cluster.objects.remove(PersistentVolumeClaim, "ns/new"),
            'failed to check provisioning pvc: persistentvolumeclaims "ns/new" not found',
            id="the claim to be provisioned goes",
        ),
        pytest.param("new", _drop_annotations, 'selectedNode annotation reset for PVC "new"', id="annotations go"),
        pytest.param("new", _choose_another_node, 'provisioning failed for PVC "new"', id="the provisioner gives up"),
        pytest.param(
            "new",
            _made_elsewhere,
            'pv "made" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="the new volume is elsewhere",
        ),
    ],
)
async def test_what_ends_the_wait(world: Any, claim: str, happens: Callable[[Story], None], text: str) -> None:
    story = Story(world, claim)
    story.writer.later[1.5] = lambda: happens(story)
    status = await story.bind()
    assert (status.code, status.message) == (Code.ERROR, f"binding volumes: {text}")
    assert story.writer.slept == [1.0, 1.0]


async def test_a_volume_that_comes_later_than_its_claim_is_awaited(world: Any) -> None:
    story = Story(world, "new")
    story.writer.later[1.5] = lambda: story.controller_binds("new", "made")
    story.writer.later[3.5] = lambda: world.volume("made", cls="dynamic")
    assert (await story.bind()).is_success
    assert story.writer.slept == [1.0] * 4


async def test_what_the_watch_has_not_shown_yet_is_not_judged(world: Any) -> None:
    """The stored objects are older than our write: their missing claimRef and annotation mean nothing."""
    story = Story(world, "static", "new", timeout_s=3)
    story.writer.watch_is_behind = True
    assert (await story.bind()).message == "binding volumes: context deadline exceeded"


async def test_an_unmanaged_azure_disk_cannot_be_checked(world: Any) -> None:
    story = Story(world, "static")
    disk = {"diskName": "d", "diskURI": "u", "kind": "Shared"}
    world.csi_node("a", {}, migrated="kubernetes.io/azure-disk")
    story.writer.later[1.5] = lambda: story.put(
        PersistentVolume, "pv", lambda body: body["spec"].update(azureDisk=disk)
    )
    assert (await story.bind()).message == (
        "binding volumes: failed to translate pv to csi: could not translate pv: "
        "kind(Shared) is not supported in csi migration"
    )


async def test_a_rejected_write_is_reported_and_reverted(world: Any) -> None:
    story = Story(world, "static", "new")
    story.writer.refuse["ns/new"] = ApiError("Operation cannot be fulfilled", code=409, reason="Conflict")
    status = await story.bind()
    assert (status.code, status.message) == (Code.ERROR, "Operation cannot be fulfilled")
    assert story.writer.slept == []
    claim = story.plugin._claims.get("ns/new")
    assert claim is not None and SELECTED not in claim.metadata.annotations
    assert story.plugin._volumes.get("pv").spec.claim_ref is not None  # that one the API server has


class Failures(PluginMeters):
    """The stages that failed."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def volume_stage_failed(self, operation: str) -> None:
        self.stages.append(operation)


async def test_a_binding_that_fails_is_counted(world: Any) -> None:
    story = Story(world, "static")
    failures = Failures()
    world.handle.meters = lambda name: failures
    story.writer.later[1.0] = lambda: story.controller_binds("static", "pv")
    assert (await story.bind()).is_success
    assert failures.stages == []
    other = Story(world, "static", "new")
    other.writer.refuse["ns/new"] = ApiError("Operation cannot be fulfilled", code=409, reason="Conflict")
    assert not (await other.bind()).is_success
    assert failures.stages == ["bind"]


async def test_without_a_writer_it_fails_with_a_reason(world: Any) -> None:
    story = Story(world, "static")
    world.handle.writer = None
    status = await story.bind()
    assert (status.code, status.message) == (
        Code.ERROR,
        "volumes cannot be bound: no API server is connected",
    )


async def test_it_needs_a_reservation(world: Any) -> None:
    story = Story(world, "static")
    assert (await story.plugin.pre_bind(story.state, story.pod, "b")).message == 'no pod volume found for node "b"'
    assert (await story.plugin.pre_bind(CycleState(), story.pod, "a")).message == "not found"
