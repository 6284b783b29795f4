"""The search, asked with objects as they stand on the wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from mooring.devices.allocated import AllocatedState
from mooring.devices.allocator import Allocator, Task
from mooring.devices.cel import CelSelectors
from mooring.devices.pools import AllocationError, Inventory
from mooring.devices.results import NodeSolution
from mooring.devices.rules import FIRST_RULES, Rules
from mooring.devices.search import AllocationTimeout, InvalidPools

Wire = dict[str, Any]
SELECTORS = CelSelectors()
CLASSES = {
    "any": {},
    "big": {"selectors": [{"cel": {"expression": 'device.capacity["drv"].memory.compareTo(quantity("40Gi")) >= 0'}}]},
    "tuned": {"config": [{"opaque": {"driver": "drv", "parameters": {"tuned": True}}}]},
    "broken": {"selectors": [{"cel": {"expression": "device.nope"}}]},
}


def device(name: str, **more: Any) -> Wire:
    return {"name": name, **more}


def numa(name: str, node: int, **more: Any) -> Wire:
    return device(name, attributes={"numa": {"int": node}}, **more)


def sliced(*devices: Wire, name: str = "s", pool: str = "p", count: int = 1, **spec: Any) -> Wire:
    where = (
        {} if spec.keys() & {"allNodes", "nodeSelector", "nodeName", "perDeviceNodeSelection"} else {"nodeName": "n"}
    )
    pool_of = {"name": pool, "generation": 1, "resourceSliceCount": count}
    return {
        "metadata": {"name": name},
        "spec": {"driver": "drv", "pool": pool_of, "devices": list(devices), **where, **spec},
    }


def exactly(name: str = "r", count: int = 1, cls: str = "any", cel: str = "", **more: Any) -> Wire:
    wanted = {"deviceClassName": cls, "allocationMode": "ExactCount", "count": count, **more}
    if cel:
        wanted["selectors"] = [{"cel": {"expression": cel}}]
    return {"name": name, "exactly": wanted}


def everything(name: str = "r", **more: Any) -> Wire:
    return {"name": name, "exactly": {"deviceClassName": "any", "allocationMode": "All", **more}}


def first_of(name: str, *alternatives: Wire) -> Wire:
    return {"name": name, "firstAvailable": [{"name": a["name"], **a["exactly"]} for a in alternatives]}


def claim(*requests: Wire, name: str = "c", **devices: Any) -> ResourceClaim:
    wire = {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"devices": {"requests": requests, **devices}},
    }
    return msgspec.convert(wire, ResourceClaim)


def allocate(
    slices: list[Wire],
    *claims: ResourceClaim,
    allocated: AllocatedState | None = None,
    labels: dict[str, str] | None = None,
    rules: Rules = FIRST_RULES,
) -> list[AllocationResult] | None:
    classes = {n: msgspec.convert({"metadata": {"name": n}, "spec": s}, DeviceClass) for n, s in CLASSES.items()}
    inventory = Inventory([msgspec.convert(wire, ResourceSlice) for wire in slices])
    allocator = Allocator(inventory, SELECTORS, allocated or AllocatedState(), classes.get, rules=rules)
    return results_of(allocator.allocate("n", labels or {}, allocator.prepare(claims)))


def results_of(found: NodeSolution | None) -> list[AllocationResult] | None:
    return None if found is None else found.results()


def gather(*allocations: AllocationResult) -> AllocatedState:
    state = AllocatedState()
    for allocation in allocations:
        state.add(allocation)
    return state


def chosen(results: list[AllocationResult] | None) -> list[list[str]] | None:
    if results is None:
        return None
    return [[f"{r.request}={r.device}" for r in result.devices.results] for result in results]


def in_use(
    *devices: str, share: bool = False, admin: bool = False, consumed: dict[str, str] | None = None
) -> AllocatedState:
    results = []
    for i, name in enumerate(devices):
        result: Wire = {"request": "x", "driver": "drv", "pool": "p", "device": name}
        if share:
            result |= {"shareID": str(i), "consumedCapacity": consumed or {}}
        if admin:
            result["adminAccess"] = True
        results.append(result)
    return gather(msgspec.convert({"devices": {"results": results}}, AllocationResult))


ABC = sliced(device("a"), device("b"), device("c"))
FULL_SLOTS = [{"name": "cs", "counters": {"slots": {"value": "2"}}}]


def drawing(name: str, slots: int, **more: Any) -> Wire:
    return device(name, consumesCounters=[{"counterSet": "cs", "counters": {"slots": {"value": str(slots)}}}], **more)


PARTITIONS = [
    sliced(drawing("half-1", 1), drawing("half-2", 1), drawing("whole", 2), name="s1", count=2),
    sliced(name="s2", count=2, sharedCounters=FULL_SLOTS),
]
SHARED = sliced(device("shared", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}}))


@pytest.mark.parametrize(
    ("slices", "claims", "allocated", "want"),
    [
        pytest.param([ABC], [claim(exactly())], None, [["r=a"]], id="the first device"),
        pytest.param([ABC], [claim(exactly(count=2))], None, [["r=a", "r=b"]], id="two devices in order"),
        pytest.param([ABC], [claim(exactly(count=4))], None, None, id="more than there are"),
        pytest.param([], [claim(exactly())], None, None, id="no devices at all"),
        pytest.param([ABC], [claim(exactly())], in_use("a"), [["r=b"]], id="devices in use are passed over"),
        pytest.param([ABC], [claim(exactly())], in_use("a", admin=True), [["r=a"]], id="admin access takes nothing"),
        pytest.param(
            [ABC],
            [claim(exactly(adminAccess=True))],
            in_use("a", "b", "c"),
            [["r=a"]],
            id="admin access may look at all",
        ),
        pytest.param(
            [ABC],
            [claim(exactly("r1", adminAccess=True), exactly("r2", adminAccess=True))],
            None,
            [["r1=a", "r2=b"]],
            id="but not twice in one claim",
        ),
        pytest.param(
            [ABC],
            [claim(exactly(count=2), name="c1"), claim(exactly(), name="c2")],
            None,
            [["r=a", "r=b"], ["r=c"]],
            id="several claims",
        ),
        pytest.param(
            [ABC],
            [claim(exactly("r1"), exactly("r2", cel='device.driver == "drv"'), exactly("r3", count=2))],
            None,
            None,
            id="requests do not share",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 1), numa("c", 1))],
            [claim(exactly(count=2), constraints=[{"matchAttribute": "drv/numa"}])],
            None,
            [["r=b", "r=c"]],
            id="equal attributes, found by backtracking",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 0), numa("c", 1))],
            [claim(exactly("r1"), exactly("r2"), constraints=[{"distinctAttribute": "drv/numa"}])],
            None,
            [["r1=a", "r2=c"]],
            id="different attributes",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 1), device("c"))],
            [
                claim(
                    exactly("r1"),
                    exactly("r2"),
                    exactly("r3"),
                    constraints=[{"matchAttribute": "drv/numa", "requests": ["r1"]}],
                )
            ],
            None,
            [["r1=a", "r2=b", "r3=c"]],
            id="a constraint on one request only",
        ),
        pytest.param(
            [ABC],
            [claim(exactly(), constraints=[{"matchAttribute": "drv/numa"}])],
            None,
            None,
            id="no device has the attribute",
        ),
        pytest.param(
            [sliced(numa("a", 0))],
            [claim(exactly(), constraints=[{"matchAttribute": "other/numa"}])],
            None,
            None,
            id="another domain's attribute",
        ),
        pytest.param(
            [ABC],
            [claim(first_of("r", exactly("four", 4), exactly("two", 2), exactly("one")))],
            None,
            [["r/two=a", "r/two=b"]],
            id="the first alternative that works",
        ),
        pytest.param(
            [ABC],
            [claim(first_of("r1", exactly("three", 3), exactly("one")), exactly("r2"))],
            None,
            [["r1/one=a", "r2=b"]],
            id="an alternative is given up for a later request",
        ),
        pytest.param([ABC], [claim(everything())], None, [["r=a", "r=b", "r=c"]], id="all devices"),
        pytest.param([ABC], [claim(everything())], in_use("b"), None, id="all, but one is in use"),
        pytest.param([], [claim(everything())], None, None, id="all of nothing is not enough"),
        pytest.param(
            [sliced(device("a", taints=[{"key": "sick", "effect": "NoSchedule"}]), device("b"))],
            [claim(exactly())],
            None,
            [["r=b"]],
            id="a tainted device",
        ),
        pytest.param(
            [sliced(device("a", taints=[{"key": "sick", "effect": "NoExecute"}]))],
            [claim(exactly(tolerations=[{"key": "sick", "operator": "Exists"}]))],
            None,
            [["r=a"]],
            id="a taint that is tolerated",
        ),
        pytest.param(
            [sliced(device("a", taints=[{"key": "sick", "value": "x", "effect": "NoExecute"}]))],
            [claim(exactly(tolerations=[{"key": "sick", "operator": "Equal", "value": "y"}]))],
            None,
            None,
            id="a toleration for another value",
        ),
        pytest.param(
            [sliced(device("a", taints=[{"key": "sick", "effect": "None"}]))],
            [claim(exactly())],
            None,
            [["r=a"]],
            id="a taint without effect",
        ),
        pytest.param(
            PARTITIONS, [claim(exactly(count=2))], None, [["r=half-1", "r=half-2"]], id="partitions share counters"
        ),
        pytest.param(PARTITIONS, [claim(exactly(count=3))], None, None, id="counters run out"),
        pytest.param(
            PARTITIONS, [claim(exactly())], in_use("whole"), None, id="a whole device in use leaves no partition"
        ),
        pytest.param(PARTITIONS, [claim(exactly())], in_use("half-2"), [["r=half-1"]], id="half of it is left"),
        pytest.param(
            [SHARED],
            [
                claim(
                    exactly("r1", capacity={"requests": {"memory": "10Gi"}}),
                    exactly("r2", capacity={"requests": {"memory": "30Gi"}}),
                )
            ],
            None,
            [["r1=shared", "r2=shared"]],
            id="two requests share one device",
        ),
        pytest.param(
            [SHARED],
            [
                claim(
                    exactly("r1", capacity={"requests": {"memory": "11Gi"}}),
                    exactly("r2", capacity={"requests": {"memory": "30Gi"}}),
                )
            ],
            None,
            None,
            id="the shares do not fit",
        ),
        pytest.param(
            [SHARED],
            [claim(exactly(capacity={"requests": {"memory": "20Gi"}}))],
            in_use("shared", share=True, consumed={"memory": "20Gi"}),
            [["r=shared"]],
            id="what is left of a shared device",
        ),
        pytest.param(
            [SHARED],
            [claim(exactly())],
            in_use("shared", share=True, consumed={"memory": "1"}),
            None,
            id="all of it is no longer there",
        ),
        pytest.param(
            [ABC],
            [claim(exactly(capacity={"requests": {"memory": "1"}}))],
            None,
            None,
            id="no device has the capacity asked for",
        ),
        pytest.param(
            [
                sliced(
                    device("a", capacity={"memory": {"value": "16Gi"}}),
                    device("b", capacity={"memory": {"value": "80Gi"}}),
                )
            ],
            [claim(exactly(cls="big"))],
            None,
            [["r=b"]],
            id="a class selects",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 1))],
            [claim(exactly(cel='device.attributes["drv"].numa == 1'))],
            None,
            [["r=b"]],
            id="a request selects",
        ),
        pytest.param(
            [sliced(device("a", nodeName="m"), device("b", nodeName="n"), perDeviceNodeSelection=True)],
            [claim(exactly())],
            None,
            [["r=b"]],
            id="devices that name their node",
        ),
        pytest.param([ABC], [], None, [], id="nothing to allocate"),
    ],
)
def test_which_devices_are_chosen(
    slices: list[Wire], claims: list[ResourceClaim], allocated: AllocatedState | None, want: list[list[str]] | None
) -> None:
    assert chosen(allocate(slices, *claims, allocated=allocated)) == want


BROKEN_POOL = sliced(device("x"), device("x"), name="bad", pool="bad")


@pytest.mark.parametrize(
    ("slices", "wanted", "text"),
    [
        pytest.param(
            [sliced(device("a"), count=2)],
            claim(everything()),
            "claim ns/c, request r: asks for all devices, but resource pool drv/p is currently being updated",
            id="all of a pool that is being updated",
        ),
        pytest.param(
            [BROKEN_POOL],
            claim(everything()),
            "claim ns/c, request r: asks for all devices, but resource pool drv/bad is currently invalid",
            id="all of a pool that contradicts itself",
        ),
        pytest.param(
            [sliced(numa("a", 0), numa("b", 1))],
            claim(everything(), constraints=[{"matchAttribute": "drv/numa"}]),
            "claim ns/c, request r: cannot add device drv/p/b because a claim constraint would not be satisfied",
            id="all, against a constraint",
        ),
        pytest.param(
            [ABC],
            claim(exactly(count=33)),
            "claim ns/c: number of requested devices 33 exceeds the claim limit of 32",
            id="more than a claim may hold",
        ),
        pytest.param(
            [ABC],
            claim(exactly(), constraints=[{}]),
            "claim ns/c, constraint #0: empty constraint (unsupported constraint type?)",
            id="an empty constraint",
        ),
        pytest.param(
            [ABC],
            claim(exactly(selectors=[{}])),
            "claim ns/c, request r, selector #0: CEL expression empty (unsupported selector type?)",
            id="an empty selector",
        ),
        pytest.param(
            [ABC],
            claim(exactly(cls="ghost")),
            "claim ns/c, request r: could not retrieve device class ghost: "
            'deviceclass.resource.k8s.io "ghost" not found',
            id="no such class",
        ),
        pytest.param(
            [ABC],
            claim(exactly(allocationMode="Some")),
            "claim ns/c, request r: unsupported count mode Some",
            id="an unknown mode",
        ),
        pytest.param(
            [ABC],
            claim(exactly(cel='device.attributes["drv"].gone == 1')),
            "claim ns/c: selector #0: CEL runtime error: no such key: gone",
            id="a selector that fails",
        ),
    ],
)
def test_what_is_wrong_with_a_claim_stops_the_search(slices: list[Wire], wanted: ResourceClaim, text: str) -> None:
    with pytest.raises(AllocationError) as error:
        allocate(slices, wanted)
    assert str(error.value) == text


def test_a_class_that_does_not_compile_is_named() -> None:
    with pytest.raises(AllocationError, match="class broken: selector #0: CEL compile error: compilation failed"):
        allocate([ABC], claim(exactly(cls="broken")))


class TestInvalidPools:
    def test_they_matter_when_nothing_else_serves(self) -> None:
        with pytest.raises(InvalidPools, match="invalid resource pools were encountered"):
            allocate([BROKEN_POOL], claim(exactly()))

    def test_they_do_not_matter_beside_a_good_one(self) -> None:
        assert chosen(allocate([BROKEN_POOL, ABC], claim(exactly()))) == [["r=a"]]


def test_a_claim_never_holds_more_than_32_devices() -> None:
    many = sliced(*(device(f"d{i:02}") for i in range(60)))
    wanted = claim(exactly("r1", 20), first_of("r2", exactly("lots", 20), exactly("few", 2)))
    results = allocate([many], wanted)
    assert results is not None
    assert {r.request for r in results[0].devices.results} == {"r1", "r2/few"}


def test_a_search_that_takes_too_long_says_so() -> None:
    late = iter([False, False, True])
    inventory = Inventory([msgspec.convert(ABC, ResourceSlice)])
    cls = msgspec.convert({"metadata": {"name": "any"}}, DeviceClass)
    allocator = Allocator(inventory, SELECTORS, AllocatedState(), lambda _: cls, lambda: next(late))
    with pytest.raises(AllocationTimeout, match="node n: timed out trying to allocate devices"):
        allocator.allocate("n", {}, allocator.prepare([claim(exactly(count=3))]))


def test_pods_with_very_many_claims_do_not_exhaust_the_stack() -> None:
    many = sliced(*(device(f"d{i:04}") for i in range(960)))
    results = allocate([many], *(claim(exactly(count=32), name=f"c{i}") for i in range(30)))
    assert results is not None
    assert sum(len(result.devices.results) for result in results) == 960


class TestResults:
    def test_shares_have_an_id_and_say_what_they_take(self) -> None:
        wanted = claim(
            exactly("r1", capacity={"requests": {"memory": "10Gi"}}),
            exactly("r2", capacity={"requests": {"memory": "30Gi"}}),
        )
        results = allocate([SHARED], wanted)
        assert results is not None
        first, second = results[0].devices.results
        assert (first.consumed_capacity, second.consumed_capacity) == ({"memory": "10Gi"}, {"memory": "30Gi"})
        assert first.share_id and second.share_id and first.share_id != second.share_id
        assert allocate([SHARED], wanted) == results  # no chance involved

    def test_other_devices_have_neither(self) -> None:
        results = allocate([ABC], claim(exactly()))
        assert results is not None
        assert results[0].devices.results[0].share_id is None
        assert results[0].devices.results[0].consumed_capacity is None

    @pytest.mark.parametrize(
        ("slices", "want"),
        [
            pytest.param(
                [ABC],
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                id="a local device",
            ),
            pytest.param([sliced(device("a"), allNodes=True)], None, id="a device for all nodes"),
            pytest.param(
                [sliced(device("a", bindsToNode=True), allNodes=True)],
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                id="a device that is bound to the node",
            ),
            pytest.param(
                [
                    sliced(
                        device("a"),
                        nodeSelector={
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "z", "operator": "In", "values": ["1"]}]}
                            ]
                        },
                    )
                ],
                {"matchExpressions": [{"key": "z", "operator": "In", "values": ["1"]}]},
                id="a device for some nodes",
            ),
        ],
    )
    def test_where_the_allocation_can_be_used(self, slices: list[Wire], want: Wire | None) -> None:
        results = allocate(slices, claim(exactly()), labels={"z": "1"})
        assert results is not None
        selector = msgspec.to_builtins(results[0]).get("nodeSelector")
        assert selector == (None if want is None else {"nodeSelectorTerms": [want]})

    def test_selectors_of_several_devices_are_united(self) -> None:
        def within(name: str, key: str) -> Wire:
            selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}
            return sliced(device("d"), device("e"), name=name, pool=name, nodeSelector=selector)

        results = allocate([within("s1", "x"), within("s2", "y")], claim(exactly(count=3)), labels={"x": "1", "y": "1"})
        assert results is not None and results[0].node_selector is not None
        (term,) = results[0].node_selector.node_selector_terms
        assert [r.key for r in term.match_expressions] == ["x", "y"]

    def test_configuration_of_the_class_comes_before_the_claims(self) -> None:
        own = [{"requests": ["r2"], "opaque": {"driver": "drv", "parameters": {"own": 1}}}, {"requests": ["other"]}, {}]
        results = allocate([ABC], claim(exactly("r1", cls="tuned"), exactly("r2", cls="tuned"), config=own))
        assert results is not None
        got = [(c.source, c.requests) for c in results[0].devices.config]
        assert got == [("FromClass", ["r1", "r2"]), ("FromClaim", ["r2"]), ("FromClaim", [])]

    def test_conditions_and_tolerations_are_copied(self) -> None:
        slow = sliced(device("a", bindingConditions=["ready"], bindingFailureConditions=["failed"]))
        results = allocate([slow], claim(exactly(tolerations=[{"key": "k", "operator": "Exists"}])))
        assert results is not None
        (result,) = results[0].devices.results
        assert (result.binding_conditions, result.binding_failure_conditions) == (["ready"], ["failed"])
        assert result.tolerations[0].key == "k"


def test_allocated_state_forgets_what_is_removed() -> None:
    wire = {
        "devices": {
            "results": [
                {"driver": "drv", "pool": "p", "device": "a"},
                {"driver": "drv", "pool": "p", "device": "s", "shareID": "1", "consumedCapacity": {"memory": "1Gi"}},
            ]
        }
    }
    allocation = msgspec.convert(wire, AllocationResult)
    state = gather(allocation, allocation)
    state.remove(allocation)
    assert len(state.devices) == len(state.shares) == len(state.capacity) == 1
    state.remove(allocation)
    assert not state.devices and not state.shares and not state.capacity


some_devices = st.lists(
    st.builds(
        lambda node, tainted, shareable: {
            "attributes": {"numa": {"int": node}},
            "taints": [{"key": "sick", "effect": "NoSchedule"}] if tainted else [],
            **({"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}} if shareable else {}),
        },
        st.integers(0, 1),
        st.sampled_from([False, False, True]),
        st.sampled_from([False, False, True]),
    ),
    max_size=4,
)
some_requests = st.sampled_from(
    [
        [exactly()],
        [exactly(count=2)],
        [everything()],
        [exactly("r1", cel='device.attributes["drv"].numa == 1'), exactly("r2")],
        [first_of("r", exactly("three", 3), exactly("one")), exactly("last", capacity={"requests": {"memory": "3Gi"}})],
    ]
)
some_constraints = st.sampled_from([[], [], [{"matchAttribute": "drv/numa"}], [{"distinctAttribute": "drv/numa"}]])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(some_devices, min_size=2, max_size=4),
    some_requests,
    some_constraints,
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=4),
)
def test_what_is_remembered_between_nodes_changes_no_choice(
    nodes: list[list[Wire]], requests: list[Wire], constraints: list[Wire], taken: set[tuple[int, int, bool]]
) -> None:
    slices = [
        sliced(*(device(f"d{i}", **d) for i, d in enumerate(found)), name=f"s{n}", pool=f"n{n}", nodeName=f"n{n}")
        for n, found in enumerate([*nodes, *nodes])  # every node has a twin
    ]
    inventory = Inventory([msgspec.convert(wire, ResourceSlice) for wire in slices])
    allocated = AllocatedState()
    for n, d, share in sorted(taken):
        result: Wire = {"driver": "drv", "pool": f"n{n}", "device": f"d{d}"}
        if share:
            result |= {"shareID": "x", "consumedCapacity": {"memory": "1Gi"}}
        allocated.add(msgspec.convert({"devices": {"results": [result]}}, AllocationResult))
    cls = msgspec.convert({"metadata": {"name": "any"}}, DeviceClass)
    wanted = [claim(*requests, name="c1", constraints=constraints), claim(exactly(), name="c2")]

    def outcome(allocator: Allocator, task: Task, node: str) -> Any:
        try:
            return results_of(allocator.allocate(node, {}, task))
        except AllocationError as error:
            return str(error)

    shared = Allocator(inventory, SELECTORS, allocated, lambda _: cls)
    task = shared.prepare(wanted)
    for n in range(len(slices)):
        alone = Allocator(inventory, SELECTORS, allocated, lambda _: cls)
        assert outcome(shared, task, f"n{n}") == outcome(alone, alone.prepare(wanted), f"n{n}")
