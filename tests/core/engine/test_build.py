"""The same configuration for another cluster: a fork's plugins look at the fork."""

from __future__ import annotations

from mooring.core.config.load import default_config
from mooring.core.framework.handle import Nominations
from mooring.core.plugins.devices.cluster_devices import ClusterDevices
from mooring.core.session import Built, build
from mooring.testing import make_cluster, make_node, make_pod


def node_of(built: Built, cpu: str) -> str | None:
    return built.decide(make_pod("web", cpu=cpu)).node


def test_a_fork_has_its_own_engine_and_plugins() -> None:
    cluster = make_cluster(make_node("a"))
    built = build(default_config(), cluster)
    fork = cluster.fork()
    there = built.on(fork)
    fork.set_node(make_node("large", cpu=16))
    assert (node_of(there, "8"), node_of(built, "8")) == ("large", None)
    assert there.handle.cluster is fork and there.engine is not built.engine
    mine, theirs = built.profiles["default-scheduler"], there.profiles["default-scheduler"]
    assert list(mine.plugins) == list(theirs.plugins)
    assert not any(mine.plugins[name].plugin is theirs.plugins[name].plugin for name in mine.plugins)


def test_a_fork_of_a_fork() -> None:
    cluster = make_cluster(make_node("a"))
    first = cluster.fork()
    second = first.fork()
    second.set_node(make_node("large", cpu=16))
    assert node_of(build(default_config(), cluster).on(first).on(second), "8") == "large"


def test_nominations_are_the_same_unless_others_are_given() -> None:
    cluster, nominations = make_cluster(make_node("a")), Nominations()
    nominations.nominate(cluster.info(make_pod("first", cpu="4", priority=10)), "a")
    built = build(default_config(), cluster, nominator=nominations)
    assert node_of(built.on(cluster.fork()), "1") is None
    assert node_of(built.on(cluster.fork(), Nominations()), "1") == "a"


def test_devices_belong_to_the_fork() -> None:
    cluster = make_cluster(make_node("a"))
    built, fork = build(default_config(), cluster), cluster.fork()
    devices = built.on(fork).handle.devices
    assert isinstance(devices, ClusterDevices)
    assert devices.is_of(fork) and not devices.is_of(cluster)


def test_a_pod_that_is_held_back_is_not_tried() -> None:
    built = build(default_config(), make_cluster(make_node("a")))
    held = make_pod("held", spec={"schedulingGates": [{"name": "wait"}]})
    decision = built.decide(held)
    assert (decision.outcome.value, decision.status.plugin, decision.num_nodes) == ("gated", "SchedulingGates", 1)
    assert decision.statuses is None
