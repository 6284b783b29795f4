"""What plugins are given: the handle, and the parts behind it, real ones and those that do nothing."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from mooring.core.engine.preemption import Evaluator
from mooring.core.framework.handle import (
    BindWriter,
    CycleObserver,
    Devices,
    Handle,
    NobodyWaits,
    NoDevices,
    Nominations,
    Nominator,
    PluginMeters,
    PreemptionEvaluator,
    Preemptions,
    WaitingPod,
    WaitingPods,
)
from mooring.core.plugins.devices.cluster_devices import ClusterDevices
from mooring.core.queue.nominator import QueueNominator
from mooring.live import waiting_pods
from mooring.live.meters import ProfileMeters
from mooring.live.preemption import PreemptionExecutor
from mooring.live.writer import ApiWriter
from mooring.testing import Scheduler, make_cluster, make_node, make_pod


def contract(protocol: Any) -> dict[str, Any]:
    """The methods of a Protocol, by name."""
    return {name: each for name, each in vars(protocol).items() if inspect.isfunction(each) and name[0] != "_"}


@pytest.mark.parametrize(
    ("protocol", "implementation"),
    [
        (Nominator, QueueNominator),
        (Nominator, Nominations),
        (Devices, NoDevices),
        (Devices, ClusterDevices),
        (WaitingPods, NobodyWaits),
        (WaitingPods, waiting_pods.WaitingPodsMap),
        (WaitingPod, waiting_pods.PermitWait),
        (PluginMeters, ProfileMeters),
        (CycleObserver, ProfileMeters),
        (PreemptionEvaluator, Evaluator),
        (Preemptions, PreemptionExecutor),
        (BindWriter, ApiWriter),
    ],
    ids=lambda value: value.__qualname__,
)
def test_an_implementation_takes_what_its_contract_says(protocol: Any, implementation: Any) -> None:
    methods = contract(protocol)
    assert methods, "a contract without methods checks nothing"
    for name, method in methods.items():
        found = getattr(implementation, name)
        assert list(inspect.signature(found).parameters) == list(inspect.signature(method).parameters), name
        assert inspect.iscoroutinefunction(found) is inspect.iscoroutinefunction(method), name


# ---- the parts that do nothing -----------------------------------------------------------------------------------


def test_no_pod_is_nominated() -> None:
    nobody = Nominations()
    assert (list(nobody.nominated_pods("a")), list(nobody.nominated_nodes())) == ([], [])
    assert (nobody.node_of("uid"), nobody.copy().node_of("uid")) == (None, None)
    assert Nominations().log is not nobody.log, "a log belongs to one"


def test_no_pod_waits() -> None:
    assert (NobodyWaits().get("uid"), NobodyWaits().all()) == (None, ())


def test_no_class_backs_a_resource() -> None:
    nodes = make_cluster(make_node("a"), make_node("b")).snapshot()
    assert NoDevices().backs("example.com/gpu") is False
    totals, taken = NoDevices().totals("example.com/gpu", nodes)
    assert totals.tolist() == taken.tolist() == [0, 0] and totals.dtype == np.int64
    assert NoDevices().mapping_version() == NoDevices().mapping_version()


def test_nothing_is_counted() -> None:
    nobody = PluginMeters()
    nobody.claim_created(is_created=True)
    nobody.devices_waited_for(["driver"], [], "success", 1.0)
    nobody.preemption_attempted()
    nobody.volume_stage_failed("bind")


# ---- the handle --------------------------------------------------------------------------------------------------


def test_a_handle_works_without_a_scheduler() -> None:
    handle = Handle(make_cluster())
    assert isinstance(handle.nominator, Nominations) and isinstance(handle.devices, NoDevices)
    assert isinstance(handle.waiting_pods, NobodyWaits) and isinstance(handle.meters("any"), PluginMeters)
    assert (handle.writer, handle.preemption, handle.preemptions, handle.extenders) == (None, None, None, ())
    assert handle.pick(5) == 0, "where upstream draws a random number, the first is taken"


@pytest.mark.parametrize(
    ("features", "default", "want"),
    [({"Mine": True}, False, True), ({"Mine": False}, True, False), ({}, True, True), ({}, False, False)],
    ids=["on", "off", "on by default", "off by default"],
)
def test_whether_a_feature_is_enabled(features: dict[str, bool], default: bool, want: bool) -> None:
    assert Handle(make_cluster(), features=features).is_enabled("Mine", default) is want


@pytest.mark.parametrize(
    ("points", "want"),
    [
        pytest.param({"filter": ["Mine"]}, True, id="the profile runs it there"),
        pytest.param({"filter": ["Other"]}, False, id="it runs another one there"),
        pytest.param({"score": ["Mine"]}, False, id="it runs it elsewhere"),
        pytest.param(None, True, id="without a profile nothing is missing"),
    ],
)
def test_whether_a_plugin_runs_at_a_point(points: Any, want: bool) -> None:
    assert Handle(make_cluster(), points=points).is_enabled_at("filter", "Mine") is want


def test_the_plugins_of_a_profile_share_a_handle_and_profiles_do_not() -> None:
    made: list[Handle] = []

    class First:
        name = "First"

        def __init__(self, args: Any, handle: Handle) -> None:
            made.append(handle)

        def filter(self, state: Any, pod: Any, nodes: Any) -> None: ...

    class Second(First):
        name = "Second"

    enabled = {"enabled": [{"name": "First"}, {"name": "Second"}]}
    config = {
        "profiles": [
            {"schedulerName": "one", "plugins": {"filter": enabled}},
            {"schedulerName": "two", "plugins": {"multiPoint": enabled}},
        ]
    }
    on = Scheduler(make_node("a"), config=config, plugins=[First, Second])
    assert made[0] is made[1] and made[2] is made[3] and made[0] is not made[2]
    assert made[0].devices is made[2].devices, "what profiles share is in both"
    for handle in made:
        assert handle.is_enabled_at("filter", "First") and not handle.is_enabled_at("preScore", "First")
        assert handle.is_enabled_at("preFilter", "NodeResourcesFit")
    assert on.decide(make_pod("web", spec={"schedulerName": "two"})).node == "a"
