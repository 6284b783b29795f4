"""What happens in a virtual soak, and when: a list of steps that a seed makes, that can be cut, written and read.

Pods come and go, nodes are lost and come back, and everything breaks that can. A step says what and for how long; what
it does to whom is in ``happenings``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from mooring.api import yaml
from mooring.errors import InputError

REPLICAS = 3
NODES = 8
PODS_PER_S = 2.0
LIFE_S = 14.0
FAULT_EVERY_S = 8.0
BURSTS = 0.3
"""Of so many pods the next comes at the same instant."""
QUIET_S = 20.0
"""At the end of a plan nothing breaks any more, while pods go on to come and go."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens to ``name``: a pod, a node, a replica, or ``leader`` or ``standby`` at that time."""

    at_s: float
    what: str
    name: str = ""
    for_s: float = 0.0
    amount: float = 0.0
    how: str = ""

    def brief(self) -> dict[str, Any]:
        """The step without what it does not say."""
        return {key: value for key, value in asdict(self).items() if value != "" and (value or key == "at_s")}


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
    qps: int = 30  # that a replica allows itself
    steps: tuple[Step, ...] = ()

    def without(self, steps: set[int]) -> Plan:
        return replace(self, steps=tuple(step for i, step in enumerate(self.steps) if i not in steps))


def _faults(rng: random.Random, plan: Mapping[str, Any]) -> dict[str, float]:
    """What may break, and how often compared with the others."""
    return {
        "lose-requests": 3,
        "lose-answers": 3,
        "late-messages": 3,
        "double-requests": 2,
        "refuse-requests": 2,
        "cut-watches": 3,
        "lag-watches": 3,
        "expire-watches": 2,
        "forget-history": 1,
        "cut-off": 2,
        "restart-server": 1.5,
        "lose-storage": 0.7,
        "sleep": 3,
        "kill": 2,
        "stop": 2,
        "drift": 2,
        "jump": 1,
        "fill-disk": 1,
        "lose-node": 3,
        "cordon-node": 2,
        **({"hang-extender": 2, "lie-extender": 2} if plan["extender"] else {}),
        **({"raise-plugin": 3} if plan["plugin"] else {}),
    }


def make_plan(
    seed: int,
    seconds: float,
    *,
    nodes: int = NODES,
    replicas: int = REPLICAS,
    pods_per_s: float = PODS_PER_S,
    fault_every_s: float = FAULT_EVERY_S,
) -> Plan:
    """Make the plan of a seed."""
    rng = random.Random(f"{seed} plan")
    shape = {"extender": rng.random() < 0.15, "plugin": rng.random() < 0.3}
    steps: list[Step] = []
    names = [f"replica-{i}" for i in range(replicas)]
    faults = _faults(rng, shape)
    at_s, number = 0.5, 0
    while at_s < seconds:
        number += 1
        cpu = rng.choice((250, 500, 500, 1000, 1000, 2000))
        how = rng.choices(("", "high", "spread", "apart"), (12, 2, 2, 1))[0]
        life_s = round(1.0 + rng.expovariate(1 / LIFE_S), 3)
        steps.append(Step(round(at_s, 3), "pod", f"pod-{number:06d}", life_s, cpu, how))
        at_s += 0.0 if rng.random() < BURSTS else rng.expovariate(pods_per_s)
    at_s = 20.0
    while at_s < seconds - QUIET_S:
        what = rng.choices(list(faults), list(faults.values()))[0]
        steps.append(_fault(rng, round(at_s, 3), what, names, nodes))
        at_s += rng.expovariate(1 / fault_every_s)
    steps.sort(key=lambda step: step.at_s)
    log = "/dev/full" if rng.random() < 0.1 else ""
    return Plan(seed, seconds, replicas, nodes, shape["extender"], shape["plugin"], log, steps=tuple(steps))


def _fault(rng: random.Random, at_s: float, what: str, names: list[str], nodes: int) -> Step:
    whom = rng.choice(("leader", *names))
    lasts_s = round(rng.uniform(1.0, 15.0), 3)
    match what:
        case "lose-requests" | "lose-answers":
            return Step(at_s, what, whom, lasts_s, round(rng.uniform(0.05, 0.6), 3), rng.choice(("", "half")))
        case "late-messages":
            return Step(at_s, what, whom, lasts_s, round(rng.uniform(0.5, 12.0), 3))
        case "double-requests" | "refuse-requests":
            return Step(at_s, what, whom, lasts_s, round(rng.uniform(0.05, 0.6), 3))
        case "cut-watches":
            return Step(at_s, what, rng.choice((whom, "")), how=rng.choice(("", "half")))
        case "lag-watches":
            lag_s = round(rng.uniform(0.5, 30.0), 3)
            return Step(
                at_s, what, rng.choice((whom, *names)), lasts_s, lag_s, rng.choice(("", "pods", "pods", "nodes"))
            )
        case "expire-watches":
            return Step(at_s, what, whom, round(rng.uniform(0.5, 3.0), 3))
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
            return Step(at_s, what, f"node-{rng.randrange(nodes):03d}", round(rng.uniform(0.5, 40.0), 3))
        case _:  # forget-history, fill-disk, hang-extender, lie-extender, raise-plugin
            return Step(at_s, what, for_s=lasts_s)


# ---- as a file -------------------------------------------------------------------------------------------------------


def to_text(plan: Plan, problems: list[str]) -> str:
    """The plan as a file that `mooring bench soak --virtual-time --story FILE` plays again."""
    head = "".join(f"# {line}\n" for problem in problems[:3] for line in problem.splitlines())
    shape = {key: value for key, value in asdict(plan).items() if key != "steps"}
    return head + yaml.dump({**shape, "steps": [step.brief() for step in plan.steps]}, sort_keys=False)


def from_text(text: str, where: str) -> Plan:
    """Read such a file."""
    try:
        content = dict(yaml.load(text, where))
        steps = tuple(Step(**step) for step in content.pop("steps"))
        return Plan(**content, steps=steps)
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(f"{where}: not the story of a soak: {error}; a soak that fails prints one") from None
