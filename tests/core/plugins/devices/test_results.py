"""What the allocator chose, as it is written into a claim's status."""

from __future__ import annotations

import msgspec
import pytest

from .builders import ABC, SHARED, Wire, allocate, claim, device, exactly, sliced


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
