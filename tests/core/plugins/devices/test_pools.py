from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.meta import ObjectMeta
from mooring.api.resource import (
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCounter,
    DeviceCounterConsumption,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from mooring.core.plugins.devices import pools as module
from mooring.core.plugins.devices.pools import AllocationError, Inventory, Pool


def publish(
    name: str,
    *devices: str | Device,
    driver: str = "gpu",
    pool: str = "p",
    generation: int = 1,
    count: int = 1,
    **where: object,
) -> ResourceSlice:
    spec = ResourceSliceSpec(
        driver=driver,
        pool=ResourcePool(pool, generation, count),
        devices=[Device(name=d) if isinstance(d, str) else d for d in devices],
        **(where or {"node_name": "a"}),  # type: ignore[arg-type]
    )
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def zone(*values: str) -> NodeSelector:
    return NodeSelector([NodeSelectorTerm([NodeSelectorRequirement("zone", "In", list(values))])])


def pools(*slices: ResourceSlice, node: str = "a", labels: dict[str, str] | None = None) -> list[Pool]:
    return Inventory(slices).reach_of(node, labels or {}).pools


def names(found: list[Pool]) -> list[str]:
    return [f"{c.id.pool}/{c.id.device}" for pool in found for c in pool.candidates]


@pytest.mark.parametrize(
    ("slices", "want"),
    [
        pytest.param([publish("s", "d", node_name="b")], [], id="another node's slice"),
        pytest.param([publish("s", "d", all_nodes=True)], ["p/d"], id="a slice for all nodes"),
        pytest.param([publish("s", "d", node_selector=zone("x"))], ["p/d"], id="a selector that matches"),
        pytest.param([publish("s", "d", node_selector=zone("y"))], [], id="a selector that does not match"),
        pytest.param([publish("s", "d", per_device_node_selection=True)], [], id="no device says where it is"),
        pytest.param(
            [publish("s", "d", Device(name="e", node_name="a"), per_device_node_selection=True)],
            ["p/d", "p/e"],
            id="one device of the slice is here",
        ),
        pytest.param([publish("z", "d1", count=2), publish("y", "d2", count=2)], ["p/d2", "p/d1"], id="slices by name"),
        pytest.param(
            [publish("s1", "old"), publish("s2", "new", generation=2)], ["p/new"], id="only the newest generation"
        ),
        pytest.param(
            [publish("s1", "old"), publish("s2", "new", generation=2, count=2)], [], id="the newest is incomplete"
        ),
        pytest.param(
            [publish("s1", "old", count=2), publish("s2", "new", generation=2, node_name="b")],
            [],
            id="a newer generation elsewhere makes an incomplete old one obsolete",
        ),
        pytest.param(
            [publish("s1", "d", count=2), publish("s2", "e", count=2, node_name="b")],
            ["p/d"],
            id="the rest of the pool is elsewhere",
        ),
        pytest.param(
            [publish("s1", "d", pool="q"), publish("s2", "d", driver="cpu", pool="z"), publish("s3", "d")],
            ["z/d", "p/d", "q/d"],
            id="pools by driver, then name",
        ),
        pytest.param(
            [publish("s1", Device(name="d", binding_conditions=["ready"]), pool="a"), publish("s2", "d", pool="b")],
            ["b/d", "a/d"],
            id="pools that must be made ready come last",
        ),
    ],
)
def test_which_devices_a_node_reaches(slices: list[ResourceSlice], want: list[str]) -> None:
    assert names(pools(*slices, labels={"zone": "x"})) == want


def draws(name: str, counter_set: str = "cs", counter: str = "slots") -> Device:
    consumption = DeviceCounterConsumption(counter_set, {counter: DeviceCounter("1")})
    return Device(name=name, consumes_counters=[consumption])


SLOTS = [CounterSet("cs", {"slots": DeviceCounter("2")})]


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        pytest.param([publish("s", "d", "d")], "duplicate device name d", id="the same device twice"),
        pytest.param([publish("s", draws("d"))], "counter set cs not found", id="no such counter set"),
        pytest.param(
            [
                publish("s1", draws("d", counter="rows"), count=2),
                publish("s2", count=2, shared_counters=SLOTS, node_name="a"),
            ],
            "counter rows not found in counter set cs",
            id="no such counter",
        ),
        pytest.param(
            [
                publish("s1", count=2, shared_counters=SLOTS, node_name="a"),
                publish("s2", count=2, shared_counters=SLOTS, node_name="a"),
            ],
            "duplicate counter set name cs",
            id="the same counter set twice",
        ),
        pytest.param(
            [
                publish("s1", draws("d"), count=3),
                publish("s2", count=3, shared_counters=SLOTS, node_name="a"),
                publish("s3", draws("e", counter="rows"), count=3, node_name="b"),
            ],
            "counter rows not found in counter set cs",
            id="a device elsewhere draws on an unknown counter",
        ),
    ],
)
def test_invalid_pools(slices: list[ResourceSlice], reason: str) -> None:
    (pool,) = pools(*slices)
    assert pool.invalid_reason == reason
    assert not pool.is_usable
    assert not pool.candidates


@pytest.mark.parametrize(("own", "shared", "is_incomplete"), [(1, 2, True), (2, 1, False)])
def test_of_slices_that_disagree_about_their_number_the_nodes_own_counts(
    own: int, shared: int, is_incomplete: bool
) -> None:
    slices = [publish("a-shared", "d", count=shared, all_nodes=True), publish("b-own", "e", count=own)]
    [pool] = pools(*slices)
    assert pool.is_incomplete is is_incomplete


def test_an_incomplete_pool_is_known_but_gives_nothing() -> None:
    (pool,) = pools(publish("s", "d", count=2))
    assert pool.is_incomplete
    assert not pool.candidates


def test_counters_reach_every_node_of_the_pool() -> None:
    slices = (
        publish("s1", draws("d"), count=3),
        publish("s2", count=3, shared_counters=SLOTS, node_name="elsewhere"),
        publish("s3", draws("e"), count=3, node_name="b"),
    )
    (pool,) = pools(*slices)
    assert pool.is_usable
    assert [c.id.device for c in pool.candidates] == ["d"]
    assert [c.id.device for c in pool.elsewhere] == ["e"]


def test_a_selector_that_does_not_parse_is_an_error() -> None:
    broken = NodeSelector([NodeSelectorTerm([NodeSelectorRequirement("zone", "Near", ["x"])])])
    with pytest.raises(AllocationError, match="gather pool information: failed to perform node selection for slice s"):
        pools(publish("s", "d", node_selector=broken))


def test_pools_follow_the_nodes_labels() -> None:
    inventory = Inventory([publish("s", "d", node_selector=zone("x"))])
    assert names(inventory.reach_of("a", {"zone": "x"}).pools) == ["p/d"]
    assert names(inventory.reach_of("a", {"zone": "y"}).pools) == []
    assert names(inventory.reach_of("a", {"zone": "x"}).pools) == ["p/d"]


def test_counting_ignores_generations() -> None:
    inventory = Inventory([publish("s1", "old"), publish("s2", "new", generation=2), publish("s3", "b", node_name="b")])
    assert [c.id.device for c in inventory.published_for("a", {})] == ["old", "new"]


slices = st.builds(
    lambda name, pool, generation, count, where, device: publish(
        name, device, pool=pool, generation=generation, count=count, **where
    ),
    st.sampled_from(["s1", "s2", "s3"]),
    st.sampled_from(["p", "q"]),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from([{"node_name": "a"}, {"node_name": "b"}, {"all_nodes": True}, {"node_selector": zone("x")}]),
    st.sampled_from(["d", "e"]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(slices, st.sampled_from(["s1", "s2", "s3"])), max_size=8))
def test_an_inventory_kept_up_to_date_equals_a_new_one(history: list[ResourceSlice | str]) -> None:
    kept, known = Inventory(), {}
    for change in history:
        if isinstance(change, str):
            kept.remove(change)
            known.pop(change, None)
        else:
            kept.put(change)
            known[change.name] = change
        fresh = Inventory(known.values())
        for node, labels in (("a", {"zone": "x"}), ("b", {})):
            got, want = kept.reach_of(node, labels), fresh.reach_of(node, labels)
            assert got.ids == want.ids
            assert [(p.id, p.is_incomplete, p.invalid_reason) for p in got.pools] == [
                (p.id, p.is_incomplete, p.invalid_reason) for p in want.pools
            ]


def test_a_pool_comes_back_when_its_newer_generation_goes() -> None:
    inventory = Inventory([publish("s1", "old", count=2), publish("s2", "new", generation=2, node_name="b")])
    assert inventory.reach_of("a", {}).pools == []
    inventory.remove("s2")
    (pool,) = inventory.reach_of("a", {}).pools
    assert pool.is_incomplete


def test_nodes_with_devices_of_their_own_hold_common_pools_once() -> None:
    """Or 100 nodes that reach 2,000 pools would hold 200,000."""
    inventory = Inventory(
        [
            publish("common", "net", driver="net", all_nodes=True),
            publish("s-a", "d"),
            publish("s-b", "d", node_name="b"),
        ]
    )
    (own_a, common_a), (own_b, common_b) = (inventory.reach_of(node, {}).pools for node in "ab")
    assert common_a is common_b and own_a is not own_b
    inventory.put(publish("common", "net", "other", driver="net", all_nodes=True))
    assert names(inventory.reach_of("a", {}).pools) == ["p/d", "p/net", "p/other"]


def test_nodes_that_came_and_went_with_their_devices_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """When they are removed, an event names their slices, not the nodes themselves."""
    monkeypatch.setattr(module, "MAX_REACHES", 10)
    monkeypatch.setattr(module, "MAX_CONTENTS", 10)
    inventory = Inventory([publish("everywhere", "net", driver="net", pool="net", all_nodes=True)])
    numbers = set()
    for i in range(100):
        node, gpu = f"node-{i}", Device(name="gpu", attributes={"uuid": DeviceAttribute(string_value=f"gpu-{i}")})
        inventory.put(publish(f"slice-{i}", gpu, pool=node, node_name=node))
        reach = inventory.reach_of(node, {})
        assert names(reach.pools) == [f"{node}/gpu", "net/net"]
        numbers.add(reach.likeness)
        inventory.remove(f"slice-{i}")
        inventory.reach_of(node, {})  # still there, without its device
    assert len(numbers) == 100, "what is forgotten is never mistaken for something else"
    kept = {name: len(value) for name, value in vars(inventory).items() if isinstance(value, dict)}
    assert {name: count for name, count in kept.items() if count > 10} == {}
    assert [len(nodes) for nodes in inventory._nodes_of_pool.values() if len(nodes) > 10] == []
