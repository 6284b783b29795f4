"""The same configuration for another cluster: a fork's plugins look at the fork."""

from __future__ import annotations

from mooring.core.config.load import default_config
from mooring.core.framework.handle import Nominations
from mooring.core.plugins.devices.cluster_devices import ClusterDevices
from mooring.core.session import Session, open_session
from mooring.testing import make_cluster, make_node, make_pod


def node_of(session: Session, cpu: str) -> str | None:
    return session.decide(make_pod("web", cpu=cpu)).node


def test_a_fork_has_its_own_engine_and_plugins() -> None:
    cluster = make_cluster(make_node("a"))
    session = open_session(default_config(), cluster)
    fork = cluster.fork()
    there = session.on(fork)
    fork.set_node(make_node("large", cpu=16))
    assert (node_of(there, "8"), node_of(session, "8")) == ("large", None)
    assert there.handle.cluster is fork and there.engine is not session.engine
    mine, theirs = session.profiles["default-scheduler"], there.profiles["default-scheduler"]
    assert list(mine.plugins) == list(theirs.plugins)
    assert not any(mine.plugins[name].plugin is theirs.plugins[name].plugin for name in mine.plugins)


def test_a_fork_of_a_fork() -> None:
    cluster = make_cluster(make_node("a"))
    first = cluster.fork()
    second = first.fork()
    second.set_node(make_node("large", cpu=16))
    assert node_of(open_session(default_config(), cluster).on(first).on(second), "8") == "large"


def test_nominations_are_the_same_unless_others_are_given() -> None:
    cluster, nominations = make_cluster(make_node("a")), Nominations()
    nominations.nominate(cluster.info(make_pod("first", cpu="4", priority=10)), "a")
    session = open_session(default_config(), cluster, nominator=nominations)
    assert node_of(session.on(cluster.fork()), "1") is None
    assert node_of(session.on(cluster.fork(), Nominations()), "1") == "a"


def test_devices_belong_to_the_fork() -> None:
    cluster = make_cluster(make_node("a"))
    session, fork = open_session(default_config(), cluster), cluster.fork()
    devices = session.on(fork).handle.devices
    assert isinstance(devices, ClusterDevices)
    assert devices.is_of(fork) and not devices.is_of(cluster)


def test_a_pod_that_is_held_back_is_not_tried() -> None:
    session = open_session(default_config(), make_cluster(make_node("a")))
    held = make_pod("held", spec={"schedulingGates": [{"name": "wait"}]})
    decision = session.decide(held)
    assert (decision.outcome.value, decision.status.plugin, decision.num_nodes) == ("gated", "SchedulingGates", 1)
    assert decision.statuses is None
