"""NodeAffinity (spec 2.6)."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.api.errors import ConfigError
from mooring.core.config.types import NodeAffinityArgs
from mooring.core.framework.status import Code
from mooring.core.plugins.node_affinity import NodeAffinity
from mooring.testing import filter_statuses, make_cluster, make_handle, make_node, make_pod, scores

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CLUSTER = make_cluster(
    make_node("a", labels={"disk": "ssd"}), make_node("b", labels={"disk": "hdd"}), make_node("c", labels={"gpu": "1"})
)


def on(key: str, operator: str = "Exists", *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*names: str, operator: str = "In") -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def preferred(*wishes: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    terms = [{"weight": weight, "preference": term} for weight, term in wishes]
    return {"affinity": {"nodeAffinity": {PREFERRED: terms}}}


def plugin(**added: Any) -> NodeAffinity:
    affinity = None
    if added:
        affinity = from_plain(Pod, {"spec": {"affinity": {"nodeAffinity": added}}}).spec.affinity.node_affinity
    return NodeAffinity(NodeAffinityArgs(added_affinity=affinity), make_handle(CLUSTER))


MISMATCH = "node(s) didn't match Pod's node affinity/selector"
OUTSIDE = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


@pytest.mark.parametrize(
    ("spec", "passing", "reason"),
    [
        pytest.param({}, "abc", "", id="no demands"),
        pytest.param({"nodeSelector": {}}, "abc", "", id="an empty nodeSelector demands nothing"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, "a", MISMATCH, id="nodeSelector"),
        pytest.param({"nodeSelector": {"disk": ""}}, "", MISMATCH, id="an empty value is not a missing label"),
        pytest.param(required(on("disk")), "ab", MISMATCH, id="required"),
        pytest.param(required(on("gpu"), on("disk", "In", "hdd")), "bc", MISMATCH, id="one term is enough"),
        pytest.param({"nodeSelector": {"disk": "ssd"}, **required(on("gpu"))}, "", MISMATCH, id="both must hold"),
        pytest.param(required(), "", MISMATCH, id="required without terms matches nothing"),
        pytest.param(required(named("a")), "a", OUTSIDE, id="a name narrows the search"),
        pytest.param(required(named("a"), named("c")), "ac", OUTSIDE, id="names of several terms"),
        pytest.param(required(named("a"), on("gpu")), "ac", MISMATCH, id="a term without a name: no narrowing"),
        pytest.param(required(named("a", operator="NotIn")), "bc", MISMATCH, id="NotIn does not narrow"),
        pytest.param(required({**named("a"), **on("gpu")}), "", MISMATCH, id="the name fits, the label does not"),
    ],
)
def test_filter(spec: dict[str, Any], passing: str, reason: str) -> None:
    statuses = filter_statuses(plugin(), CLUSTER, make_pod(spec=spec))
    assert {name for name, status in statuses.items() if status.is_success} == set(passing)
    refused = {status for status in statuses.values() if not status.is_success}
    assert all(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in refused)
    assert not refused or reason in {status.message for status in refused}


def test_names_that_exclude_each_other() -> None:
    statuses = filter_statuses(plugin(), CLUSTER, make_pod(spec=required(named("a", "b"))))
    assert {(status.code, status.message) for status in statuses.values()} == {
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "pod affinity terms conflict")
    }


class TestAddedAffinity:
    def test_the_profile_demands_first(self) -> None:
        enforced = plugin(**{REQUIRED: {"nodeSelectorTerms": [on("disk")]}})
        statuses = filter_statuses(enforced, CLUSTER, make_pod(spec={"nodeSelector": {"disk": "ssd"}}))
        assert statuses["a"].is_success
        assert statuses["b"].message == MISMATCH
        assert statuses["c"].message == "node(s) didn't match scheduler-enforced node affinity"

    def test_it_holds_for_pods_that_demand_nothing(self) -> None:
        enforced = plugin(**{REQUIRED: {"nodeSelectorTerms": [on("gpu")]}})
        assert [s.is_success for s in filter_statuses(enforced, CLUSTER, make_pod()).values()] == [False, False, True]

    def test_its_wishes_add_to_the_pods(self) -> None:
        wishing = plugin(**{PREFERRED: [{"weight": 10, "preference": on("disk")}]})
        assert scores(wishing, CLUSTER, make_pod()) == {"a": 100, "b": 100, "c": 0}
        pod = make_pod(spec=preferred((10, on("disk", "In", "ssd"))))
        assert scores(wishing, CLUSTER, pod, normalized=False) == {"a": 20, "b": 10, "c": 0}

    def test_an_invalid_term_is_refused_immediately(self) -> None:
        with pytest.raises(ConfigError, match="addedAffinity"):
            plugin(**{REQUIRED: {"nodeSelectorTerms": [on("disk", "Nonsense")]}})


@pytest.mark.parametrize(
    ("wishes", "wanted"),
    [
        pytest.param([(50, on("disk", "In", "ssd"))], (100, 0, 0), id="one wish"),
        pytest.param([(50, on("disk")), (25, on("disk", "In", "ssd"))], (100, 66, 0), id="weights add up"),
        pytest.param([(10, on("nowhere"))], (0, 0, 0), id="no match: no gain"),
        pytest.param([(0, on("disk")), (5, on("gpu"))], (0, 0, 100), id="weight 0 does not count"),
        pytest.param([(5, {}), (5, on("gpu"))], (0, 0, 100), id="an empty preference does not count"),
    ],
)
def test_score(wishes: list[Any], wanted: tuple[int, int, int]) -> None:
    found = scores(plugin(), CLUSTER, make_pod(spec=preferred(*wishes)))
    assert found is not None and tuple(found.values()) == wanted


def test_without_wishes_scoring_is_skipped() -> None:
    assert scores(plugin(), CLUSTER, make_pod(spec=required(on("disk")))) is None


def test_a_wish_that_does_not_parse_is_an_error() -> None:
    with pytest.raises(ValueError, match="Nonsense"):
        scores(plugin(), CLUSTER, make_pod(spec=preferred((1, on("disk", "Nonsense")))))
