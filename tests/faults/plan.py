"""What happens in a virtual soak, and when: a list of steps that a seed makes and that can be cut.

Pods come and go, nodes are lost and come back, and everything breaks that can. A step says what and for how long; what
it does to whom is in ``happenings``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from tests.faults.loads import DEVICES_LOAD, GANGS_LOAD, LOADS, LOCAL, VOLUMES_LOAD

REPLICAS = 3
NODES = 8
QPS = 30
SHARE = {VOLUMES_LOAD: 0.3, DEVICES_LOAD: 0.3, GANGS_LOAD: 0.08}
"""How many of the pods of a plan with a load are of that load; a gang is several pods."""
FILL_S, FILL_PER_S = 20.0, 2.0
"""In the first seconds of a plan nothing breaks, and pods come quickly until there are as many as later."""
AROUND_S = 0.3
"""So far from the moment at which a fault begins or ends pods come because of it."""
QUIET_S = 20.0
"""At the end of a plan nothing breaks any more, while pods are still created and deleted."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many pods there are in a plan, on how many nodes: with little room, or so many that much can go wrong."""

    nodes: int
    arrivals_per_s: float
    bursts: float  # of so many pods the next comes at the same instant
    around: float  # so many pods more come together when a fault begins, and when it ends, on average
    pods: float  # that exist at the same time: the fewer are created, the longer they live
    fault_every_s: float
    qps: int  # that a replica allows itself


CROWDS = {
    "tight": Crowd(NODES, 0.1, 0.3, 3.0, 40.0, 8.0, QPS),
    "roomy": Crowd(2 * NODES, 0.1, 0.3, 3.0, 40.0, 8.0, QPS),
    "dense": Crowd(20 * NODES, 2.0, 0.93, 3.0, 400.0, 8.0, 10 * QPS),
}


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens to ``name``: a pod, a node, a replica, or ``leader`` or ``standby`` at that time."""

    at_s: float
    what: str
    name: str = ""
    for_s: float = 0.0
    amount: float = 0.0
    how: str = ""

    def fault(self) -> dict[str, Any]:
        """The step as the ``fault`` of a scenario, without what it does not say."""
        said = {"what": self.what, "name": self.name, "for": self.for_s, "amount": self.amount, "how": self.how}
        return {key: value for key, value in said.items() if value}


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run. The seed decides latencies and dice; the steps decide what happens."""

    seed: int
    seconds: float
    replicas: int = REPLICAS
    nodes: int = NODES
    extender: bool = False
    plugin: bool = False
    decision_log: str = ""
    qps: int = QPS  # that a replica allows itself
    load: str = ""  # besides plain pods
    page_size: int = 0  # lists come in pages of so many, as from servers that do not stream them; 0: they are streamed
    mixed: bool = False  # every second replica is of another version and has another profile and lease
    steps: tuple[Step, ...] = ()

    def without(self, steps: set[int]) -> Plan:
        return replace(self, steps=tuple(step for i, step in enumerate(self.steps) if i not in steps))


FAULTS = {
    "lose-requests": 3.0,
    "lose-answers": 3.0,
    "late-messages": 3.0,
    "double-requests": 2.0,
    "double-events": 2.0,
    "reset-connections": 2.0,
    "refuse-requests": 2.0,
    "cut-watches": 3.0,
    "lag-watches": 3.0,
    "expire-watches": 2.0,
    "lists-behind": 2.0,
    "expire-pages": 1.0,
    "forget-history": 1.0,
    "cut-off": 2.0,
    "restart-server": 1.5,
    "lose-storage": 0.7,
    "sleep": 3.0,
    "kill": 2.0,
    "stop": 2.0,
    "drift": 2.0,
    "jump": 1.0,
    "fill-disk": 1.0,
    "lose-node": 3.0,
    "cordon-node": 2.0,
    "replace-pods": 2.0,
    "hang-extender": 2.0,
    "lie-extender": 2.0,
    "raise-plugin": 3.0,
    "delete-lease": 0.0,  # in stories only: who starts right then cannot know that there was one
    "empty-lease": 0.0,
}
"""What may break, and how often compared with the others."""


def _faults(has_extender: bool, has_plugin: bool) -> dict[str, float]:
    absent = (() if has_extender else ("extender",)) + (() if has_plugin else ("plugin",))
    return {what: often for what, often in FAULTS.items() if not what.endswith(absent)}


def make_plan(
    seed: int,
    seconds: float,
    *,
    crowd: str = "",
    nodes: int | None = None,
    replicas: int | None = None,
    pods_per_s: float | None = None,
    fault_every_s: float | None = None,
    load: str | None = None,
) -> Plan:
    """Make the plan of a seed; it decides what is not given. An empty load is none."""
    rng = random.Random(f"{seed} plan")
    has_extender, has_plugin = rng.random() < 0.15, rng.random() < 0.3
    many = CROWDS[crowd or rng.choice(("tight", "roomy"))]
    drawn = rng.choice((2, 3))
    replicas, nodes = replicas or drawn, nodes or many.nodes
    pods_per_s = pods_per_s or many.arrivals_per_s
    fault_every_s = fault_every_s or many.fault_every_s
    names = [f"replica-{i}" for i in range(replicas)]
    faults = _faults(has_extender, has_plugin)
    steps: list[Step] = []
    at_s = FILL_S
    while at_s < seconds - QUIET_S:
        what = rng.choices(list(faults), list(faults.values()))[0]
        steps.append(_fault(rng, round(at_s, 3), what, names, nodes))
        at_s += rng.expovariate(1 / fault_every_s)
    arrivals = _arrivals(rng, many, pods_per_s, seconds, steps)
    mean_life_s = many.pods / (pods_per_s / (1 - many.bursts) + 2 * many.around / fault_every_s)
    for number, at_s in enumerate(arrivals, 1):
        cpu = rng.choice((250, 500, 500, 1000, 1000, 2000))
        how = rng.choices(("", "brief", "high", "spread", "apart"), (7, 5, 2, 2, 1))[0]
        life_s = round(1.0 + rng.expovariate(1 / mean_life_s), 3)
        steps.append(Step(at_s, "pod", f"pod-{number:06d}", life_s, cpu, how))
    steps.sort(key=lambda step: step.at_s)
    log = "/dev/full" if rng.random() < 0.1 else ""
    chance = random.Random(f"{seed} load")  # apart, so that plain pods stay what they are without a load
    drawn_load = chance.choice(("", *LOADS))
    load = drawn_load if load is None else load
    loaded = tuple(_loaded(chance, load, step) for step in steps)
    page_size = 5 if chance.random() < 0.2 else 0
    made = Plan(seed, seconds, replicas, nodes, has_extender, has_plugin, log, many.qps, load, page_size)
    return replace(made, mixed=chance.random() < 0.25, steps=loaded)


def _arrivals(rng: random.Random, many: Crowd, per_s: float, seconds: float, faults: list[Step]) -> list[float]:
    """When pods come: now and then, and several at once where a fault begins or ends, which finds them on their way."""
    times: list[float] = []
    at_s = 0.5
    while at_s < seconds:
        times.append(at_s)
        now_per_s = per_s if at_s > FILL_S else max(FILL_PER_S, per_s)
        at_s += 0.0 if rng.random() < many.bursts else rng.expovariate(now_per_s)
    for fault in faults:
        for moment in (fault.at_s, fault.at_s + fault.for_s):
            at_s = moment + rng.uniform(-AROUND_S, AROUND_S)
            times += [at_s] * int(rng.expovariate(1 / many.around))
    return sorted(round(at_s, 3) for at_s in times if at_s < seconds)


def _loaded(rng: random.Random, load: str, step: Step) -> Step:
    """A step as it is with a load: some pods want something small, some are many."""
    if step.what != "pod" or rng.random() >= SHARE.get(load, 0.0):
        return step
    if load == GANGS_LOAD:
        return replace(step, what="gang", amount=rng.choice((250, 500, 1000)), how=str(rng.choice((2, 3, 4))))
    how = "device" if load == DEVICES_LOAD else rng.choice(("late", "late", LOCAL))
    return replace(step, amount=250, how=how)


def _fault(rng: random.Random, at_s: float, what: str, names: list[str], nodes: int) -> Step:
    whom = rng.choice(("leader", *names))
    lasts_s = round(rng.uniform(1.0, 15.0), 3)
    match what:
        case "lose-requests" | "lose-answers":
            return Step(at_s, what, whom, lasts_s, round(rng.uniform(0.05, 0.6), 3), rng.choice(("", "half")))
        case "late-messages":
            return Step(at_s, what, whom, lasts_s, round(rng.uniform(0.5, 12.0), 3))
        case "double-requests" | "double-events" | "reset-connections":
            return Step(at_s, what, whom, lasts_s, round(rng.uniform(0.05, 0.6), 3))
        case "refuse-requests":
            return Step(at_s, what, whom, lasts_s, round(rng.uniform(0.05, 0.6), 3), rng.choice(("", "half", "409")))
        case "cut-watches":
            return Step(at_s, what, rng.choice((whom, "")), how=rng.choice(("", "half")))
        case "lag-watches":
            lag_s = round(rng.uniform(0.5, 30.0), 3)
            return Step(
                at_s, what, rng.choice((whom, *names)), lasts_s, lag_s, rng.choice(("", "pods", "pods", "nodes"))
            )
        case "expire-watches":
            return Step(at_s, what, whom, round(rng.uniform(0.5, 3.0), 3))
        case "lists-behind":
            return Step(at_s, what, whom, lasts_s, round(rng.uniform(0.5, 20.0), 3))
        case "expire-pages":
            return Step(at_s, what, whom, lasts_s)
        case "cut-off":
            return Step(at_s, what, whom, round(rng.uniform(1.0, 40.0), 3))
        case "restart-server":
            return Step(at_s, what, for_s=round(rng.uniform(0.2, 20.0), 3))
        case "lose-storage":
            return Step(at_s, what, for_s=round(rng.uniform(0.2, 5.0), 3))
        case "sleep":
            length_s = rng.choice((rng.uniform(1, 10), rng.uniform(12, 18), rng.uniform(15, 60)))
            return Step(at_s, what, rng.choice(("leader", whom)), round(length_s, 3), how=rng.choice(("", "suspend")))
        case "kill":
            return Step(at_s, what, rng.choice(("leader", whom)), round(rng.uniform(1.0, 20.0), 3))
        case "stop":
            return Step(at_s, what, rng.choice(("leader", whom)))
        case "drift":
            return Step(at_s, what, whom, amount=round(rng.uniform(0.96, 1.04), 4))
        case "jump":
            return Step(at_s, what, whom, amount=round(rng.uniform(-3600, 3600), 3))
        case "lose-node" | "cordon-node":
            return Step(at_s, what, f"node-{rng.randrange(nodes)}", round(rng.uniform(0.5, 40.0), 3))
        case "replace-pods":
            return Step(at_s, what, amount=round(rng.uniform(0.1, 1.0), 3), how=rng.choice(("", "high")))
        case _:  # forget-history, fill-disk, hang-extender, lie-extender, raise-plugin
            return Step(at_s, what, for_s=lasts_s)
