"""Caches never change a decision: random histories, decided with and without them, agree in everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Node, Pod
from mooring.core.engine import search
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.testing import Scheduler, bound, make_node, make_object, make_pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
MIB = 1024 * 1024


def spread(key: str, when: str, **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }


def term(key: str, app: str, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

# What pods can look like; each is a template that a history uses again and again.
TEMPLATES: list[dict[str, Any]] = [
    {"cpu": "500m", "memory": "256Mi", "labels": {"app": "web"}},
    {},
    {"cpu": "1500m", "priority": 10, "labels": {"app": "db"}},
    {"cpu": "100m", "host_ports": [8080]},
    {"host_ports": [8080, 9090], "priority": 5, "labels": {"app": "web"}},
    {"requests": {"example.com/gpu": 1}, "memory": "1Gi"},
    {"image": "registry.example/big:1", "cpu": "200m"},
    {"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}, "cpu": "300m"},
    {"spec": {"nodeSelector": {"disk": "ssd"}}, "labels": {"app": "db"}},
    {
        "labels": {"app": "web"},
        "spec": {"topologySpreadConstraints": [spread(ZONE, "DoNotSchedule"), spread(HOST, "ScheduleAnyway")]},
    },
    {
        "labels": {"app": "web"},
        "priority": 20,
        "spec": {
            "topologySpreadConstraints": [
                spread(ZONE, "DoNotSchedule", nodeTaintsPolicy="Honor", minDomains=2),
            ]
        },
    },
    {"labels": {"app": "web"}, "spec": {"affinity": {"podAntiAffinity": {REQUIRED: [term(HOST, "web")]}}}},
    {"labels": {"app": "db"}, "spec": {"affinity": {"podAffinity": {REQUIRED: [term(ZONE, "web")]}}}},
    {
        "labels": {"app": "web"},
        "spec": {
            "affinity": {
                "podAffinity": {PREFERRED: [{"weight": 30, "podAffinityTerm": term(ZONE, "db")}]},
                "podAntiAffinity": {PREFERRED: [{"weight": 70, "podAffinityTerm": term(HOST, "web")}]},
            }
        },
    },
    {
        "cpu": "250m",
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    PREFERRED: [
                        {
                            "weight": 50,
                            "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                        }
                    ]
                }
            }
        },
    },
    {"spec": {"hostNetwork": True, "hostUsers": False}},
]

NODES = 14


def node(number: int, variant: int) -> Node:
    """One of a few looks of a node: every bit of the variant changes one thing that some plugin reads."""
    labels = {"disk": "ssd" if variant & 1 else "hdd"}
    if variant & 32:
        labels["gone"] = "1"
    taints = ["dedicated=gpu:NoSchedule"] if variant & 2 else []
    if variant & 4:
        taints.append("busy:PreferNoSchedule")
    return make_node(
        f"n{number:02}",
        zone="" if variant & 32 else f"z{number % 3}",
        labels=labels,
        cpu="1" if variant & 8 else "2",
        pods=2 if variant & 16 else 4,
        allocatable={"example.com/gpu": 1} if number % 4 == 0 else {},
        taints=taints,
        unschedulable=bool(variant & 64),
        images={"registry.example/big:1": 500 * MIB} if variant & 1 else {},
        features=["UserNamespacesHostNetworkSupport"] if variant & 4 else [],
    )


def pod(serial: int, template: int) -> Pod:
    return make_pod(f"p{serial}", **TEMPLATES[template])


def summary(decision: ScheduleResult) -> dict[str, Any]:
    """Everything a decision says."""
    return {
        "outcome": decision.outcome,
        "node": decision.node,
        "scores": None if decision.scores is None else decision.scores.to_dict(),
        "totals": None if decision.scores is None else decision.scores.totals_dict(),
        "refusals": None
        if decision.statuses is None
        else {status: sorted(rows.tolist()) for status, rows in decision.statuses.groups()},
        "message": decision.message,
        "nominated": decision.nominated_node,
        "victims": [victim.uid for victim in decision.victims],
        "feasible": decision.feasible_nodes,
        "evaluated": decision.evaluated_nodes,
        "plugins": decision.unschedulable_plugins,
    }


class TwoSchedulers:
    """The same history told to one scheduler with caches and one without."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.both = [Scheduler(config=config), Scheduler(config=config, uses_cache=False)]
        self.running: list[Pod] = []
        self.kept: list[ScheduleResult] = []  # keeps templates alive, as pods that run do
        self.serial = 0
        for scheduler in self.both:
            scheduler.put(make_object("Service", "web", "default", spec={"selector": {"app": "web"}}))
        for number in range(NODES):
            self.put(node(number, 0))
            self.step("pod", number, number)

    def put(self, obj: Any) -> None:
        for scheduler in self.both:
            scheduler.put(obj)

    def step(self, action: str, a: int, b: int) -> None:
        match action:
            case "node":
                self.put(node(a % NODES, b % 128))
            case "no node":
                for scheduler in self.both:
                    scheduler.cluster.remove_node(f"n{a % NODES:02}")
            case "pod":  # bound past the scheduler
                self.serial += 1
                self.run(bound(pod(self.serial, b % len(TEMPLATES)), f"n{a % NODES:02}"))
            case "no pod" if self.running:
                gone = self.running.pop(a % len(self.running))
                for scheduler in self.both:
                    scheduler.cluster.remove_pod(gone.uid)
            case "relabel" if self.running:
                old = self.running.pop(a % len(self.running))
                self.run(bound(make_pod(old.name, **{**TEMPLATES[b % len(TEMPLATES)], "labels": {"app": "db"}}),
                               old.spec.node_name))  # fmt: skip
            case "promise":
                waiting = pod(10_000 + b, b % len(TEMPLATES))
                for scheduler in self.both:
                    scheduler.nominate(waiting, f"n{a % NODES:02}")
            case "decide":
                self.serial += 1
                self.decide(pod(self.serial, b % len(TEMPLATES)))

    def run(self, placed: Pod) -> None:
        self.running.append(placed)
        self.put(placed)

    def decide(self, waiting: Pod) -> None:
        cached, plain = (scheduler.decide(waiting) for scheduler in self.both)
        assert summary(cached) == summary(plain)
        self.kept.append(cached)
        if cached.outcome is Outcome.SCHEDULED:
            self.run(bound(waiting, str(cached.node)))


NUMBERS = st.integers(0, 2**16)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["decide"] * 6 + ["node", "pod", "no pod", "relabel", "no node", "promise"]), NUMBERS, NUMBERS
    ),
    min_size=20,
    max_size=60,
)


@settings(max_examples=60)
@given(STEPS)
def test_decisions_are_the_same_with_and_without_caches(steps: list[tuple[str, int, int]]) -> None:
    both = TwoSchedulers()
    for action, a, b in steps:
        both.step(action, a, b)


@settings(max_examples=20)
@given(STEPS)
def test_decisions_are_the_same_in_a_profile_with_other_weights_and_strategies(steps: list[Any]) -> None:
    both = TwoSchedulers(
        {
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}},
                    "pluginConfig": [
                        {
                            "name": "NodeResourcesFit",
                            "args": {
                                "scoringStrategy": {
                                    "type": "MostAllocated",
                                    "resources": [
                                        {"name": "cpu", "weight": 3},
                                        {"name": "example.com/gpu", "weight": 5},
                                    ],
                                }
                            },
                        },
                        {"name": "PodTopologySpread", "args": {"defaultingType": "List"}},
                    ],
                }
            ]
        }
    )
    for action, a, b in steps:
        both.step(action, a, b)


@pytest.fixture(params=[True, False], ids=["by kinds of nodes", "by all nodes"])
def rules_are_asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How rules that read the whole cluster are asked; the first way is meant for large clusters."""
    monkeypatch.setattr(search, "FEW_NODES", 0 if request.param else NODES)


@pytest.mark.usefixtures("rules_are_asked")
@settings(max_examples=20)
@given(STEPS)
def test_leaving_out_the_detail_changes_no_node(steps: list[Any]) -> None:
    both = TwoSchedulers()
    quiet = both.both[0].session.engine

    def decide(waiting: Pod) -> None:
        profile = both.both[0].profiles["default-scheduler"]
        short = quiet.decide(both.both[0].cluster.info(waiting), profile, detail=False)
        whole = both.both[1].decide(waiting)
        assert (short.outcome, short.node, short.message) == (whole.outcome, whole.node, whole.message)
        assert (short.feasible_nodes, short.evaluated_nodes) == (whole.feasible_nodes, whole.evaluated_nodes)
        assert (short.scores is None) == (whole.scores is None)
        if short.scores is not None and whole.scores is not None:
            assert short.scores.best == whole.scores.best
            assert short.scores.totals_dict() == whole.scores.totals_dict()
        both.kept.append(short)
        if short.outcome is Outcome.SCHEDULED:
            both.run(bound(waiting, str(short.node)))

    both.decide = decide  # type: ignore[method-assign]
    for action, a, b in steps:
        both.step(action, a, b)


def test_reasons_of_one_plugin_repaired_at_different_times_keep_their_words() -> None:
    nodes = [make_node(f"n{i}", cpu="1", pods=2) for i in range(12)]
    scheduler = Scheduler(*nodes, *(make_pod(f"on-{i}", node=f"n{i}", cpu="500m") for i in range(12)))
    wanted = make_pod("late", cpu="900m")
    first = scheduler.decide(wanted)
    assert first.message.startswith("0/12 nodes are available: 12 Insufficient cpu.")
    scheduler.cluster.remove_pod("uid-default-on-1")
    scheduler.put(make_pod("a", node="n1"), make_pod("b", node="n1"))
    second = scheduler.decide(wanted)
    assert second.message.startswith("0/12 nodes are available: 1 Too many pods, 11 Insufficient cpu.")
    assert second.pod.shape is first.pod.shape, "otherwise nothing was cached"


@pytest.mark.parametrize("number", range(len(TEMPLATES)))
def test_a_burst_of_one_template_is_placed_alike(number: int) -> None:
    both = TwoSchedulers()
    for _ in range(25):
        both.step("decide", 0, number)


@pytest.mark.parametrize("others", [1, 5, 9, 39], ids="{} other nodes have changed".format)
def test_the_winner_among_all_nodes_follows_what_changes(others: int) -> None:
    both = [Scheduler(*(make_node(f"n{i}") for i in range(40)), uses_cache=uses_cache) for uses_cache in (True, False)]
    for number in range(4):
        first, second = (scheduler.decide(make_pod(f"web-{number}", cpu="100m")) for scheduler in both)
        assert first.node == second.node
        for scheduler in both:
            scheduler.put(make_pod(f"web-{number}", cpu="100m", node=first.node))
            full = [f"n{(i + 7 * number) % 40}" for i in range(others)]
            scheduler.put(*(make_pod(f"on-{number}-{name}", cpu="500m", node=name) for name in full))
