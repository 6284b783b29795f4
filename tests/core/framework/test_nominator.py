"""Nominations by hand, and their copies for forks."""

from __future__ import annotations

from mooring.core.framework.handle import Nominations
from mooring.testing import make_cluster, make_pod

CLUSTER = make_cluster()
ONE, OTHER = (CLUSTER.info(make_pod(name)) for name in ("one", "other"))


def test_a_pod_is_nominated_to_one_node_at_a_time() -> None:
    nominations = Nominations()
    nominations.nominate(ONE, "a")
    nominations.nominate(OTHER, "a")
    nominations.nominate(ONE, "b")
    assert [list(nominations.nominated_pods(node)) for node in "ab"] == [[OTHER], [ONE]]
    assert nominations.nominated_nodes() == {"a", "b"}
    assert list(nominations.log.since(0)) == ["a", "a", "a", "b"], "each node whose nominated pods changed"


def test_a_nomination_is_withdrawn() -> None:
    nominations = Nominations()
    nominations.nominate(ONE, "a")
    nominations.withdraw(ONE.uid)
    nominations.withdraw("unknown")
    assert not nominations.nominated_nodes() and not list(nominations.nominated_pods("a"))


def test_a_copy_goes_its_own_way() -> None:
    nominations = Nominations()
    nominations.nominate(ONE, "a")
    copy = nominations.copy()
    copy.nominate(OTHER, "b")
    nominations.withdraw(ONE.uid)
    assert copy.nominated_nodes() == {"a", "b"}
    assert nominations.nominated_nodes() == set()
