"""Proof by search that no placement is better: an independent branch and bound over all placements.

Equal pods on one node are interchangeable, so that pods of a kind choose their nodes in order. A branch ends where even
the best continuation would be no better than what is claimed, where a node is full, or where the engine refuses a pair
of pods on its own. What is left is replayed. Nothing here knows the program that the optimiser solves.

    python -m tests.ask.every_placement --seeds 1000

tries random clusters of up to 6 nodes and 14 pods, and prints what differs.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import mooring
from mooring.api.core import Pod, recreated_pod
from mooring.ask.moves import Move, MoveReplay, bound, movable_pods
from mooring.ask.optimise import Optimisation, optimise
from mooring.ask.placement_options import FRAGMENTATION, NODES, PENDING, SPREAD, PlacementGoal
from mooring.ask.placement_search import _holds as holds_at_the_end
from mooring.ask.placement_search import _only_gets_worse as only_gets_worse
from mooring.ask.wanted import in_queue_order, waiting_pods
from mooring.core.cluster import Cluster
from mooring.core.state.pod_info import PodInfo
from mooring.testing import make_node, make_object, make_pod

MAX_BRANCHES = 400_000
OWNER = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}]
}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class TooMany(Exception):
    """The search has too many branches."""


class Better:
    """Looks for a placement that can be reached and is better than what was found."""

    def __init__(self, cluster: Cluster, objective: str, found: Optimisation) -> None:
        scheduler = mooring.Scheduler(cluster)
        self.session = scheduler.session.fork()
        self.goal = PlacementGoal.of(objective, scheduler, self.session, {})
        movable, _ = movable_pods(self.session)
        waiting = in_queue_order(self.session, waiting_pods(cluster, self.session))
        self.nodes = [info.name for info in self.session.state.nodes().infos]
        self.kinds: list[tuple[Any, ...]] = []
        self.pods = sorted([*movable, *waiting], key=lambda pod: (-pod.priority, *map(str, self._kind(pod))))
        self.claim = self.goal.rank(found.after, 2 * sum(bool(source) for _, source, _ in found.moves))
        self.bare = self.session.fork()
        for pod in movable:
            self.bare.state.remove_pod(pod.uid)
        rows = self.bare.state.nodes()
        self.whole = [int(each) for each in rows.allocatable("cpu")]
        self.free = [int(a - b) for a, b in zip(rows.allocatable("cpu"), rows.requested("cpu"), strict=True)]
        self.held = [any(True for _ in info.pods) for info in rows.infos]
        self.now = {pod.uid: pod.pod.spec.node_name for pod in self.pods}
        self.branches = 0
        self._alone: dict[tuple[Any, ...], bool] = {}
        self._pairs: dict[tuple[Any, ...], bool] = {}

    def find(self) -> list[Move] | None:
        """The moves to a better placement, or None: there is none."""
        return next(self._search(0, []), None)

    def _kind(self, pod: PodInfo) -> tuple[Any, ...]:
        return pod.shape.id, pod.cls.id, pod.priority, pod.pod.spec.node_name

    def _search(self, i: int, places: list[str]) -> Iterator[list[Move]]:
        self.branches += 1
        if self.branches > MAX_BRANCHES:
            raise TooMany
        if not self._best_possible(places) > self.claim:
            return
        if i == len(self.pods):
            moves = self._moves(places)
            replay = MoveReplay(self.session.fork())
            if replay.run(moves) and holds_at_the_end(replay.session, moves):
                yield moves
            return
        pod = self.pods[i]
        same = i and self._kind(self.pods[i - 1]) == self._kind(pod)
        choices = [*self.nodes, *([""] if not self.now[pod.uid] else [])]
        least = choices.index(places[-1]) if same else 0
        for place in choices[least:]:
            if not place or self._may_be(i, place, places):
                yield from self._search(i + 1, [*places, place])

    def _moves(self, places: list[str]) -> list[Move]:
        found = zip(self.pods, places, strict=True)
        return [Move(pod, self.now[pod.uid], place) for pod, place in found if place and place != self.now[pod.uid]]

    def _may_be(self, i: int, place: str, places: list[str]) -> bool:
        pod = self.pods[i]
        comes = place != self.now[pod.uid]
        row = self.nodes.index(place)
        there = [other for other, at in zip(self.pods, places, strict=False) if at == place]
        is_full = sum(int(p.shape.requests.get("cpu", 0)) for p in [*there, pod]) > self.free[row]
        if is_full and (comes or any(self.now[other.uid] != place for other in there)):
            return False
        if not comes:
            return True
        if not only_gets_worse(self.bare, pod):
            return True
        if not self._fits(self._alone, pod, place, []):
            return False
        return all(
            self._fits(self._pairs, pod, place, [(other, at)])
            for other, at in zip(self.pods, places, strict=False)
            if at
        )

    def _fits(
        self, known: dict[tuple[Any, ...], bool], pod: PodInfo, place: str, others: list[tuple[PodInfo, str]]
    ) -> bool:
        key = (self._kind(pod)[:3], place, *((self._kind(other)[:3], at) for other, at in others))
        if key not in known:
            session = self.bare.fork()
            for number, (other, at) in enumerate(others):
                twin = recreated_pod(other.pod, f"{other.uid}:{number}")
                twin.spec.node_name = at
                session.state.set_pod(twin)
            new = session.info(recreated_pod(pod.pod, f"{pod.uid}:new"))
            known[key] = bound(session, new, place).node is not None
        return known[key]

    def _best_possible(self, places: list[str]) -> tuple[Any, ...]:
        """The rank if all other pods were placed, no node more were used, and none of them moved."""
        placed: Counter[int] = Counter()
        for info in self.bare.state.nodes().infos:
            for fixed in info.pods.values():
                placed[fixed.priority] += 1
        for i, pod in enumerate(self.pods):
            placed[pod.priority] += i >= len(places) or bool(places[i])
        used = {self.nodes.index(place) for place in places if place} | {i for i, held in enumerate(self.held) if held}
        asks = [0] * len(self.nodes)
        for pod, place in zip(self.pods, places, strict=False):
            if place:
                asks[self.nodes.index(place)] += int(pod.shape.requests.get("cpu", 0))
        left = [free - ask for free, ask in zip(self.free, asks, strict=True)]
        steps = sum(
            2 * bool(self.now[pod.uid])
            for pod, place in zip(self.pods, places, strict=False)
            if place != self.now[pod.uid]
        )
        value = 0.0
        if self.goal.objective == NODES:
            # What is left needs room, too: on used nodes, or on as many more as the largest ones.
            more = sum(int(p.shape.requests.get("cpu", 0)) for p in self.pods[len(places) :] if self.now[p.uid])
            more -= sum(max(0, left[i]) for i in used)
            value = len(used)
            for room in sorted((left[i] for i in range(len(left)) if i not in used), reverse=True):
                if more > 0:
                    value, more = value + 1, more - room
        elif self.goal.objective == SPREAD:
            value = max(round(100 * (whole - rest) / whole, 1) for whole, rest in zip(self.whole, left, strict=True))
        elif self.goal.objective == FRAGMENTATION:
            sample = self.goal.sample
            size = int(sample.shape.requests.get("cpu", 0)) if sample is not None else 0
            allowed = self.goal.sample_nodes
            value = -float(
                sum(
                    max(0, rest) // size if size else 10**6
                    for n, rest in zip(self.nodes, left, strict=True)
                    if n in allowed
                )
            )
        by_priority = tuple(count for _, count in sorted(placed.items(), reverse=True))
        return (*by_priority, -value, -steps)


# ---- random clusters -----------------------------------------------------------------------------------------------


def pod(name: str, app: str = "web", node: str = "", **more: Any) -> Pod:
    return make_pod(name, node=node, labels={"app": app}, metadata=OWNER, **more)


def apart(key: str, app: str = "web") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def near(key: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def even(key: str, app: str = "web", skew: int = 1) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    constraint = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


RULES: list[dict[str, Any]] = [
    {},
    apart(HOST),
    apart(ZONE, "db"),
    near(ZONE, "db"),
    near(HOST, "web"),
    even(ZONE),
    even(HOST),
    {"nodeSelector": {"disk": "ssd"}},
    {"tolerations": [{"operator": "Exists"}]},
]


def random_cluster(chance: random.Random, most_nodes: int, most_pods: int) -> Cluster:
    """Nodes, kinds of pods with rules, pods that run or wait, and perhaps a budget."""
    nodes = [
        make_node(
            f"n{i}",
            zone=chance.choice("ab"),
            cpu=chance.choice([2, 4]),
            labels={"disk": chance.choice(["ssd", "hdd"])},
            taints=["dedicated=db:NoSchedule"] if chance.random() < 0.15 else [],
        )
        for i in range(chance.randint(2, most_nodes))
    ]
    kinds = [
        (
            chance.choice(["web", "db"]),
            chance.choice([1, 1, 2]),
            chance.choice([0, 0, 10]),
            chance.choice(RULES),
            chance.choice([(), (), (80,)]),
        )
        for _ in range(chance.randint(1, 4))
    ]
    cluster = Cluster(*nodes)
    for i in range(chance.randint(1, most_pods)):
        app, cpu, priority, spec, ports = chance.choice(kinds)
        node = chance.choice(["", *(node.name for node in nodes)])
        cluster.add(pod(f"{app}-{i}", app, node, cpu=cpu, priority=priority, spec=spec, host_ports=ports))
    if chance.random() < 0.5:
        budget = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
        allowed = {"disruptionsAllowed": chance.randint(0, 2)}
        cluster.add(make_object("PodDisruptionBudget", "web", "default", spec=budget, status=allowed))
    return cluster


def check(seed: int, most_nodes: int = 6, most_pods: int = 14) -> str:
    """What is wrong with the best placement of a random cluster; empty if nothing is. TooMany if it takes too long."""
    chance = random.Random(seed)
    cluster = random_cluster(chance, most_nodes, most_pods)
    objective = chance.choice([NODES, PENDING, SPREAD, FRAGMENTATION])
    found = optimise(cluster, objective, time_limit_s=600)
    if not found.is_optimal:
        return f"seed {seed}: {objective}: not proved to be optimal"
    search = Better(cluster, objective, found)
    better = search.find()
    if better is not None:
        moves = ", ".join(f"{move.pod.pod.name} {move.source or '-'} -> {move.target}" for move in better)
        return f"seed {seed}: {objective}: {search.claim} was found, better is {moves}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--pods", type=int, default=14)
    asked = parser.parse_args()
    wrong = too_many = 0
    for seed in range(asked.first, asked.first + asked.seeds):
        try:
            found = check(seed, asked.nodes, asked.pods)
        except TooMany:
            too_many += 1
            continue
        if found:
            wrong += 1
            print(found, flush=True)
    print(f"{asked.seeds} clusters: {asked.seeds - wrong - too_many} proved, {too_many} too large, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
