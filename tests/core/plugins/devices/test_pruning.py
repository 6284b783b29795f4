"""What the search leaves out: it never changes an outcome, and it makes hopeless searches short."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mooring.api.resource import ResourceClaim
from mooring.core.config.features import Features
from mooring.core.config.versions import V1_34, V1_37
from mooring.core.plugins.devices import device_checks as pruning
from mooring.core.plugins.devices import search
from mooring.core.plugins.devices.allocator import Allocator
from mooring.core.plugins.devices.claims import RequestedDevices
from mooring.core.plugins.devices.device_checks import Pruning
from mooring.core.plugins.devices.extended import AllocatedState
from mooring.core.plugins.devices.pools import FIRST_RULES, AllocationError, Rules

from .builders import (
    SELECTORS,
    Wire,
    allocation,
    claim,
    device,
    device_class,
    exactly,
    first_of,
    holding,
    inventory_of,
    sliced,
)

MAX_STEPS = 1500
LATEST_RULES, OLDEST_RULES = Rules.of(Features(V1_37)), Rules.of(Features(V1_34))
TOO_LONG = (search.AllocationTimeout, "node n: timed out trying to allocate devices")


class NoPruning(Pruning):
    """Upstream's search: every branch is gone through."""

    def can_fill(self, claim_index: int, request: RequestedDevices, needed: int, start: int) -> bool:
        return True

    def is_like_failed(self, failed: Sequence[int], position: int, claim_index: int) -> bool:
        return False

    def has_failed(self, stage: int) -> bool:
        return False

    def remember_failure(self, stage: int) -> None:
        pass


def allocator_of(
    slices: list[Wire], allocated: AllocatedState, *, max_steps: int = 10_000, rules: Rules = FIRST_RULES
) -> Allocator:
    """An allocator that gives up when its only search takes more than so many steps."""
    steps = itertools.count(1)
    return Allocator(
        inventory_of(slices), SELECTORS, allocated, device_class, lambda: next(steps) > max_steps, rules=rules
    )


def outcome(allocator: Allocator, claims: list[ResourceClaim]) -> Any:
    try:
        found = allocator.allocate("n", {}, allocator.prepare(claims))
    except AllocationError as error:
        return type(error), str(error)
    return None if found is None else found.results()


class Problem(NamedTuple):
    slices: list[Wire]
    claims: list[ResourceClaim]
    taken: list[Wire] = []
    limit: int = 32
    rules: Rules = FIRST_RULES


# ---- the same outcome ------------------------------------------------------------------------------------------


def slots(number: int) -> list[Wire]:
    return [{"name": "cs", "counters": {"slots": {"value": str(number)}}}]


def both(problem: Problem) -> tuple[Any, Any]:
    """The outcome of the search, and of upstream's; the latter is TOO_LONG if it takes too many steps."""
    allocated = holding(allocation(*problem.taken))
    pruned = allocator_of(problem.slices, allocated, rules=problem.rules)
    plain = allocator_of(problem.slices, allocated, max_steps=MAX_STEPS, rules=problem.rules)
    with patch.multiple(search, ALLOCATION_RESULTS_MAX_SIZE=problem.limit), patch.object(pruning, "EASY_STEPS", 0):
        got = outcome(pruned, problem.claims)
        with patch.object(search, "Pruning", NoPruning):
            want = outcome(plain, problem.claims)
    assert pruned.steps <= plain.steps or want == TOO_LONG
    return got, want


SICK = [{"key": "sick", "effect": "NoSchedule"}]
SLOT = [{"counterSet": "cs", "counters": {"slots": {"value": "1"}}}]
Y_IS_0, K_IS_1 = 'device.attributes["drv"].y == 0', 'device.attributes["drv"].k == 1'


@pytest.mark.parametrize(
    ("devices", "wanted", "constraints", "want"),
    [
        pytest.param(
            [device("a", x=0), device("b", x=1), device("c", x=0)],
            [exactly("r0"), exactly("r1", allocationMode="All")],
            [{"matchAttribute": "drv/x", "requests": ["r1"]}],
            "claim ns/c, request r1: cannot add device drv/p/b because a claim constraint would not be satisfied",
            id="like devices stand on both sides of one that breaks a constraint of all",
        ),
        pytest.param(
            [device("a", x=1), device("b", x=2), device("c", x=1), device("d", x=1), device("e", x=0)],
            [exactly("r0", 2), exactly("r1", 3)],
            [{"distinctAttribute": "drv/x"}],
            "r0=c r0=e r1=a r1=b r1=d",
            id="a distinct attribute forgets what was removed",
        ),
        pytest.param(
            [device("a"), device("b", taints=SICK)],
            [exactly("r0", tolerations=[{"operator": "Exists"}]), exactly("r1")],
            [],
            "r0=b r1=a",
            id="only the later request does not tolerate a taint",
        ),
        pytest.param(
            [device("a"), device("in-use")],
            [exactly("r0", adminAccess=True), exactly("r1")],
            [],
            "r0=in-use r1=a",
            id="only the later request cannot have a device in use",
        ),
        pytest.param(
            [
                device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "4"}}),
                device("b", capacity={"memory": {"value": "4"}}),
            ],
            [
                exactly("r0", capacity={"requests": {"memory": "4"}}),
                exactly("r1", capacity={"requests": {"memory": "2"}}),
                exactly("r2", capacity={"requests": {"memory": "2"}}),
            ],
            [],
            "r0=b r1=a r2=a",
            id="one of two devices can be shared",
        ),
        pytest.param(
            [
                device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "4"}}),
                device("b", allowMultipleAllocations=True, capacity={"memory": {"value": "4"}}),
            ],
            [
                exactly("r0", capacity={"requests": {"memory": "3"}}),
                exactly("r1", capacity={"requests": {"memory": "1"}}),
                exactly("r2", 2, capacity={"requests": {"memory": "1"}}),
            ],
            [],
            "r0=a r1=b r2=a r2=b",
            id="one of two shared devices is used already",
        ),
        pytest.param(
            [device("a", capacity={"memory": {"value": "4"}}), device("b", capacity={"memory": {"value": "2"}})],
            [
                exactly("r0", capacity={"requests": {"memory": "1"}}),
                exactly("r1", capacity={"requests": {"memory": "4"}}),
            ],
            [],
            "r0=b r1=a",
            id="one of two devices is too small for the later request",
        ),
        pytest.param(
            [device("a", k=0, consumesCounters=SLOT), device("b", k=0), device("c", k=1, consumesCounters=SLOT)],
            [exactly("r0"), exactly("r1", cel=K_IS_1)],
            [],
            "r0=b r1=c",
            id="one of two devices draws on a counter that the later request needs",
        ),
        pytest.param(
            [device("a", allowMultipleAllocations=True, k=0), device("b", allowMultipleAllocations=True, k=1)],
            [
                first_of("r0", exactly("two", 2), exactly("one")),
                exactly("r1", cel=K_IS_1),
                exactly("r2", cel=K_IS_1),
                first_of("r3", exactly("two", 2), exactly("never", cel='device.driver == "other"')),
            ],
            [],
            "r0/one=a r1=b r2=b r3/two=a r3/two=b",
            id="the same devices are taken, but fewer times",
        ),
        pytest.param(
            [device("a", k=0, x=0), device("b", k=2, x=1), device("c", k=3, x=1), device("d", k=1, x=0)],
            [
                exactly("r0", cel='device.attributes["drv"].k in [0, 2, 3]'),
                exactly("r1"),
                exactly("r2", cel=K_IS_1),
                exactly("r3", cel='device.attributes["drv"].k in [2]'),
            ],
            [{"matchAttribute": "drv/x", "requests": ["r1", "r2"]}],
            "r0=c r1=a r2=d r3=b",
            id="a request that is reached late tells devices apart",
        ),
        pytest.param(
            [device("a", x=0, k=0), device("b", x=1, k=0), device("c", x=1, k=1)],
            [exactly("r0"), exactly("r1"), exactly("r2", cel=K_IS_1)],
            [{"matchAttribute": "drv/x", "requests": ["r0", "r2"]}],
            "r0=b r1=a r2=c",
            id="the same devices are taken, but a constraint holds another value",
        ),
        pytest.param(
            [device("a", y=0), device("b", y=0), device("c")],
            [exactly("r0", cel=Y_IS_0), exactly("r1", cel='device.driver == "other"')],
            [],
            "claim ns/c: selector #0: CEL runtime error: no such key: y",
            id="a selector fails on a device behind those that are tried",
        ),
        pytest.param(
            [device("a"), device("b", y=1), device("c", y=1)],
            [exactly("r0"), exactly("r1", cel=Y_IS_0)],
            [],
            "claim ns/c: selector #0: CEL runtime error: no such key: y",
            id="a selector fails on a device that is taken at first",
        ),
    ],
)
def test_what_must_not_be_left_out(devices: list[Wire], wanted: list[Wire], constraints: list[Wire], want: str) -> None:
    taken = [{"driver": "drv", "pool": "p", "device": "in-use"}]
    slices = [sliced(*devices, count=2), sliced(name="t", count=2, sharedCounters=slots(1))]
    got, plain = both(Problem(slices, [claim(*wanted, constraints=constraints)], taken, limit=5))
    assert got == plain
    text = got[1] if isinstance(got, tuple) else " ".join(f"{r.request}={r.device}" for r in got[0].devices.results)
    assert text == want


def test_a_shared_device_is_not_equivalent_to_an_unused_one() -> None:
    """Since 1.37 another share of a device draws on no counter."""
    shared = {"allowMultipleAllocations": True, "consumesCounters": SLOT}
    devices = [device("a", **shared), device("shared", **shared), device("c", k=1, consumesCounters=SLOT)]
    slices = [sliced(*devices, count=2), sliced(name="t", count=2, sharedCounters=slots(2))]
    wanted = claim(exactly("r0"), exactly("r1", cel=f'"k" in device.attributes["drv"] && {K_IS_1}'))
    taken = [{"driver": "drv", "pool": "p", "device": "shared", "shareID": "s"}]
    got, plain = both(Problem(slices, [wanted], taken, rules=LATEST_RULES))
    assert got == plain
    assert [result.device for result in got[0].devices.results] == ["shared", "c"]


FEATURES = ("match", "distinct", "select", "fail", "taint", "share", "count", "admin", "all", "list", "use", "limit")
HARD = ("match", "match", "select", "distinct", "share", "count")


@st.composite
def looks(draw: st.DrawFn, features: set[str]) -> Wire:
    """A device without a name."""
    value = st.sampled_from([{"int": 0}, {"int": 1}, {"int": 2}])
    look: Wire = {"attributes": {"k": draw(value), "x": draw(value), "y": draw(value)}}
    if draw(st.integers(0, 5)) == 0:
        look["attributes"]["x"] = {}  # a kind of value that we do not know
    if "fail" in features and draw(st.integers(0, 2)) == 0:
        del look["attributes"]["y"]
    if "taint" in features and draw(st.booleans()):
        look["taints"] = SICK
    if "share" in features and draw(st.booleans()):
        look |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
    elif "share" in features:
        look["capacity"] = {"memory": {"value": draw(st.sampled_from(["2", "4"]))}}
    if "count" in features:
        slots = {"value": draw(st.sampled_from("0112"))}
        look["consumesCounters"] = [{"counterSet": "cs", "counters": {"slots": slots}}]
    return look


@st.composite
def wishes(draw: st.DrawFn, features: set[str], most: int, *, is_sub: bool = False) -> Wire:
    """What one request or alternative asks for."""
    wanted: Wire = {
        "deviceClassName": "any",
        "allocationMode": "ExactCount",
        "count": draw(st.sampled_from([1, 1, 1, 2, 2, 3])),
    }
    if "select" in features:
        kinds = draw(st.sampled_from(["[0]", "[1]", "[0, 1]", "[1, 2]", "[0, 2]", "[0, 1, 2]"]))
        wanted["selectors"] = [{"cel": {"expression": f'device.attributes["drv"].k in {kinds}'}}]
    if "fail" in features and draw(st.booleans()):
        wanted["selectors"] = [{"cel": {"expression": 'device.attributes["drv"].y == 0'}}]
    if "taint" in features and draw(st.booleans()):
        wanted["tolerations"] = [{"operator": "Exists"}]
    if "share" in features:
        wanted["capacity"] = {"requests": {"memory": draw(st.sampled_from("1234"))}}
    if "admin" in features and not is_sub:
        wanted["adminAccess"] = draw(st.booleans())
    if "all" in features and draw(st.integers(0, 2)) == 0:
        wanted["allocationMode"] = "All"
    return wanted


@st.composite
def claims_of(draw: st.DrawFn, features: set[str], name: str) -> ResourceClaim:
    requests: list[Wire] = []
    number = draw(st.integers(1, 4))
    most = (4, 3, 2, 1)[number - 1]
    for i in range(number):
        if "list" in features and draw(st.booleans()):
            subs = draw(st.lists(wishes(features, most, is_sub=True), min_size=1, max_size=3))
            requests.append(
                {"name": f"r{i}", "firstAvailable": [sub | {"name": f"s{n}"} for n, sub in enumerate(subs)]}
            )
        else:
            requests.append({"name": f"r{i}", "exactly": draw(wishes(features, most))})
    constraints = []
    for kind in sorted({"match", "distinct"} & features):
        for _ in range(draw(st.integers(1, 2))):
            names = draw(st.lists(st.sampled_from(["r0", "r1", "r1/s0", "r2", "r3"]), max_size=2, unique=True))
            constraints.append({f"{kind}Attribute": f"drv/{draw(st.sampled_from('xk'))}", "requests": names})
    return claim(*requests, name=name, constraints=constraints)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """A node's devices and claims for them, with few features at a time: they hide each other otherwise."""
    features = {draw(st.sampled_from(HARD))} | draw(st.sets(st.sampled_from(FEATURES), max_size=3))
    kinds = draw(st.lists(looks(features), min_size=2, max_size=3))
    devices = [
        look | {"name": f"d{i}"}
        for i, look in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=4, max_size=8)))
    ]
    slices = [sliced(*devices, count=2), sliced(name="t", count=2, sharedCounters=slots(draw(st.integers(1, 4))))]
    claims = [draw(claims_of(features, f"c{i}")) for i in range(draw(st.sampled_from([1, 1, 2])))]
    taken = []
    if "use" in features:
        for number in draw(st.sets(st.integers(0, 6), max_size=3)):
            share = {"shareID": "s", "consumedCapacity": {"memory": "1"}} if "share" in features else {}
            taken.append({"driver": "drv", "pool": "p", "device": f"d{number}", **share})
    limit = draw(st.integers(3, 6)) if "limit" in features else 32
    return Problem(slices, claims, taken, limit, draw(st.sampled_from([FIRST_RULES, LATEST_RULES, OLDEST_RULES])))


@settings(max_examples=500)
@given(problems())
def test_leaving_branches_out_changes_no_outcome(problem: Problem) -> None:
    got, want = both(problem)
    assume(want != TOO_LONG)
    assert got == want


# ---- few steps -------------------------------------------------------------------------------------------------


def numa(groups: int, size: int, **more: Any) -> list[Wire]:
    """Devices in groups that share an attribute; each has a serial number of its own."""
    return [device(f"d{i:03}", numa=i // size, serial=i, **more) for i in range(groups * size)]


def pairs(roots: int, nics: int) -> list[Wire]:
    gpus = [device(f"gpu-{i}", root=i, kind=0) for i in range(roots)]
    return gpus + [device(f"nic-{i}", root=i, kind=1) for i in range(nics)]


def wanted_pairs(number: int) -> tuple[list[Wire], list[Wire]]:
    kind = 'device.attributes["drv"].kind == {}'
    requests = [exactly(f"r{i}-{k}", cel=kind.format(k)) for i in range(number) for k in (0, 1)]
    return requests, [{"matchAttribute": "drv/root", "requests": [f"r{i}-0", f"r{i}-1"]} for i in range(number)]


@pytest.mark.parametrize(
    ("devices", "wanted", "constraints", "most"),
    [
        pytest.param(
            numa(10, 27),
            [exactly("r", 28)],
            [{"matchAttribute": "drv/numa"}],
            30,
            id="28 devices of one group, where groups have 27",
        ),
        pytest.param(
            numa(5, 27),
            [exactly("r0", 14), exactly("r1", 14)],
            [{"matchAttribute": "drv/numa"}],
            500,
            id="the same in two requests",
        ),
        pytest.param(
            numa(5, 27),
            [exactly(f"r{i}") for i in range(28)],
            [{"matchAttribute": "drv/numa"}],
            1000,
            id="the same in 28 requests",
        ),
        pytest.param(
            numa(5, 27),
            [exactly("r0", 28), exactly("r1", cel=Y_IS_0)],
            [{"matchAttribute": "drv/numa"}],
            30,
            id="a later request, which is never reached, has a selector that fails",
        ),
        pytest.param(
            numa(5, 27),
            [exactly("r0", 28)],
            [{"matchAttribute": "drv/numa"}, {"distinctAttribute": "drv/serial"}],
            30,
            id="a constraint that remembers an order",
        ),
        pytest.param(
            numa(1, 30), [exactly("r0", 15), exactly("r1", 16)], [], 100, id="two requests share one device too few"
        ),
        pytest.param(pairs(8, 7), *wanted_pairs(8), 5000, id="pairs on one root each, and one root lacks a device"),
    ],
)
def test_a_hopeless_search_is_short(
    devices: list[Wire], wanted: list[Wire], constraints: list[Wire], most: int
) -> None:
    allocator = allocator_of([sliced(*devices)], AllocatedState())
    assert outcome(allocator, [claim(*wanted, constraints=constraints)]) is None
    assert allocator.steps <= most


def test_failures_that_are_remembered_are_limited() -> None:
    allocator = allocator_of([sliced(*pairs(6, 5))], AllocatedState())
    requests, constraints = wanted_pairs(6)
    with patch.object(pruning, "MAX_FAILURES", 5):
        assert outcome(allocator, [claim(*requests, constraints=constraints)]) is None
    assert allocator.steps > 1000  # the rest is gone through


def test_a_search_that_counters_make_hopeless_is_short() -> None:
    """128 parts of a device, of which 31 fit together at most."""
    parts = [
        {"name": f"d{i}", "consumesCounters": [{"counterSet": "cs", "counters": {"slots": {"value": str(1 + i % 3)}}}]}
        for i in range(128)
    ]
    slices = [sliced(*parts, count=2), sliced(name="t", count=2, sharedCounters=slots(31))]
    allocator = allocator_of(slices, AllocatedState())
    assert outcome(allocator, [claim(exactly("r0", 32))]) is None
    assert allocator.steps <= 100
    assert outcome(allocator_of(slices, AllocatedState()), [claim(exactly("r0", 15))]) is not None
