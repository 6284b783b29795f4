"""Quotas: which workloads are admitted, the messages of pending ones, and that nothing is counted twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.errors import InputError
from mooring.controlplane.quotas.admission import Quotas
from mooring.controlplane.quotas.reading import Queues, queues_of

V = "kueue.x-k8s.io/v1beta2"


def queue(name: str, cpu: str, cohort: str = "", flavor: str = "f", **spec: Any) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": cpu, **spec.pop("limits", {})}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": resources}]}]
    whole = {"resourceGroups": groups, "namespaceSelector": {}, **({"cohortName": cohort} if cohort else {}), **spec}
    return {"apiVersion": V, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": whole}


def flavor(name: str = "f", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": V, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def local(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": V, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": name}}


def workload(name: str, queue: str, cpu: str, priority: int = 0, minute: int = 0, **pod: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    created = f"2026-01-01T10:{minute:02d}:00Z"
    return {
        "apiVersion": V,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": created},
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": containers, **pod}}}],
        },
    }


def run(*objects: dict[str, Any]) -> Queues:
    read = queues_of(objects)
    for _ in read.quotas.run(0.0):
        pass
    return read


def admitted(quotas: Quotas) -> set[str]:
    return {each.key.removeprefix("shop/") for queue in quotas.queues.values() for each in queue.admitted.values()}


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([queue("a", "2"), workload("x", "a", "2")], {"x"}, id="a workload within the quota"),
        pytest.param([queue("a", "2"), workload("x", "a", "3")], set(), id="a workload above the quota"),
        pytest.param(
            [queue("a", "2", "all"), queue("b", "2", "all"), workload("x", "a", "3")], {"x"}, id="a queue borrows"
        ),
        pytest.param(
            [queue("a", "2", "all", limits={"borrowingLimit": "0"}), queue("b", "2", "all"), workload("x", "a", "3")],
            set(),
            id="a borrowing limit",
        ),
        pytest.param(
            [queue("a", "2", "all"), queue("b", "2", "all", limits={"lendingLimit": "0"}), workload("x", "a", "3")],
            set(),
            id="a lending limit",
        ),
        pytest.param(
            [queue("a", "2"), workload("x", "a", "1", minute=1), workload("y", "a", "2", minute=0)],
            {"y"},
            id="the older workload first",
        ),
        pytest.param(
            [queue("a", "2"), workload("x", "a", "1", minute=1, priority=9), workload("y", "a", "2")],
            {"x"},
            id="the more important workload first",
        ),
        pytest.param(
            [queue("a", "2"), workload("x", "a", "3"), workload("y", "a", "2", minute=1)],
            {"y"},
            id="best effort goes past a workload that does not fit",
        ),
        pytest.param(
            [
                queue("a", "2", queueingStrategy="StrictFIFO"),
                workload("x", "a", "3"),
                workload("y", "a", "2", minute=1),
            ],
            set(),
            id="strict order does not",
        ),
        pytest.param(
            [queue("a", "2", stopPolicy="Hold"), workload("x", "a", "1")], set(), id="a queue that is on hold"
        ),
        pytest.param(
            [queue("a", "2", namespaceSelector=None), workload("x", "a", "1")], set(), id="a queue for no namespace"
        ),
        pytest.param(
            [
                queue("a", "2", namespaceSelector={"matchLabels": {"team": "x"}}),
                workload("x", "a", "1"),
            ],
            set(),
            id="a queue for other namespaces",
        ),
    ],
)
def test_who_is_admitted(objects: list[dict[str, Any]], want: set[str]) -> None:
    assert admitted(run(flavor(), local("a"), local("b"), *objects).quotas) == want


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        pytest.param(
            [queue("a", "2"), workload("x", "a", "3")],
            "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor f, previously considered "
            "podsets requests (0) + current podset request (3) > maximum capacity (2)",
            id="more than the quota",
        ),
        pytest.param(
            [queue("a", "2"), workload("w", "a", "1500m"), workload("x", "a", "1", minute=1)],
            "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 500m more needed",
            id="more than what is left",
        ),
        pytest.param(
            [queue("a", "2", flavor="nope"), workload("x", "a", "1")],
            "couldn't assign flavors to pod set main: flavor nope not found",
            id="a flavor that does not exist",
        ),
        pytest.param(
            [queue("a", "2", flavor="arm"), workload("x", "a", "1", nodeSelector={"arch": "amd"})],
            "couldn't assign flavors to pod set main: flavor arm doesn't match node affinity",
            id="another node selector",
        ),
        pytest.param(
            [queue("a", "2", flavor="spot"), workload("x", "a", "1")],
            "couldn't assign flavors to pod set main: untolerated taint {spot yes NoSchedule <nil>} in flavor spot",
            id="a taint",
        ),
    ],
)
def test_the_message_of_a_pending_workload(objects: list[dict[str, Any]], message: str) -> None:
    arm = flavor("arm", nodeLabels={"arch": "arm"})
    spot = flavor("spot", nodeTaints=[{"key": "spot", "value": "yes", "effect": "NoSchedule"}])
    assert run(flavor(), arm, spot, local("a"), *objects).workloads["shop/x"].message == message


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        pytest.param([workload("x", "a", "1")], "LocalQueue shop/a doesn't exist", id="no local queue"),
        pytest.param([local("a"), workload("x", "a", "1")], "ClusterQueue a doesn't exist", id="no cluster queue"),
        pytest.param(
            [local("a"), queue("a", "2", namespaceSelector={"matchLabels": {"team": "x"}}), workload("x", "a", "1")],
            "Workload namespace doesn't match ClusterQueue a's selector",
            id="another namespace",
        ),
    ],
)
def test_workloads_that_cannot_be_admitted_at_all(objects: list[dict[str, Any]], why: str) -> None:
    assert run(flavor(), *objects).problems == {"shop/x": why}


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        pytest.param(
            queue("a", "many"), "ClusterQueue a: resourceGroups\\[0\\]: f: cpu: nominalQuota: ", id="a bad quantity"
        ),
        pytest.param(flavor(nodeTaints="no"), "ResourceFlavor f: spec.nodeTaints: expected a list", id="a bad taint"),
        pytest.param(
            {"apiVersion": V, "kind": "Cohort", "metadata": {"name": "c"}, "spec": {"parentName": "c"}},
            "Cohort c: parentName: 'c' is below it; cohorts must form a tree",
            id="a cohort in itself",
        ),
        pytest.param(workload("x", "a", "lots"), "Workload shop/x: pod set main: ", id="a bad request"),
    ],
)
def test_mistakes(obj: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        queues_of([local("a"), obj])


# ---- conservation --------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")


@settings(max_examples=60, deadline=None)
@given(
    quotas=st.tuples(*[st.integers(0, 6)] * 3),
    lending=st.tuples(*[st.none() | st.integers(0, 6)] * 3),
    borrowing=st.tuples(*[st.none() | st.integers(0, 6)] * 3),
    policies=st.tuples(*[st.sampled_from(["Never", "LowerPriority", "Any"])] * 3),
    steps=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 5), st.integers(0, 2)), max_size=14),
    endings=st.lists(st.integers(0, 20), max_size=14),
    is_fair=st.booleans(),
)
def test_quotas_are_never_exceeded_and_everything_is_released(
    quotas: tuple[int, ...],
    lending: tuple[int | None, ...],
    borrowing: tuple[int | None, ...],
    policies: tuple[str, ...],
    steps: list[tuple[str, int, int]],
    endings: list[int],
    is_fair: bool,
) -> None:
    objects = [flavor(), *map(local, NAMES)]
    for i, name in enumerate(NAMES):
        limits = {"lendingLimit": lending[i], "borrowingLimit": borrowing[i]}
        limits = {key: str(value) for key, value in limits.items() if value is not None}
        preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": policies[i]}
        objects.append(queue(name, str(quotas[i]), "all", limits=limits, preemption=preemption))
    read = queues_of(objects)
    world, known = read.quotas, read.workloads
    world.is_fair = is_fair
    for i, (name, cpu, priority) in enumerate(steps):
        more = queues_of([*objects, workload(f"w{i:02}", name, str(cpu), priority, minute=i)]).workloads
        for each in more.values():
            known[each.key] = each
            world.submit(each)
        settle(world)
        if i < len(endings) and known:
            ended = sorted(known)[endings[i] % len(known)]
            world.remove(known.pop(ended))
            settle(world)
    held = {key for queue in world.queues.values() for key in queue.admitted}
    waiting = {key for queue in world.queues.values() for key in (*queue.pending, *queue.waiting)}
    assert held | waiting == known.keys() and not held & waiting
    for each in known.values():
        world.remove(each)
    root = next(iter(world.queues.values())).node.root
    assert all(not used for node in (root, *root.queues()) for used in node.usage.values())


def settle(world: Quotas) -> None:
    """Run cycles; preempted workloads have no pods, so their quota is free immediately."""
    for _ in range(100):
        preempted = [victim.workload for done in world.run(0.0) for _, victim in done.preempted]
        used = sum(queue.node.usage.get(("f", "cpu"), 0) for queue in world.queues.values())
        held = [each for queue in world.queues.values() for each in queue.admitted.values()]
        assert used == sum(sum(each.assignment.usage.values()) for each in held if each.assignment)
        assert used <= sum(queue.node.quota(("f", "cpu")).nominal for queue in world.queues.values())
        for queue in world.queues.values():
            quota = queue.node.quota(("f", "cpu"))
            if quota.borrowing_limit is not None:
                assert queue.node.usage.get(("f", "cpu"), 0) <= quota.nominal + quota.borrowing_limit
        if not preempted:
            return
        for each in preempted:
            world.released(each)
    raise AssertionError("workloads preempt each other without end")
