"""What a plugin may declare, and what a wrong declaration is answered with."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from mooring.api.errors import PluginError
from mooring.core.framework.registry import DEFAULT_TRAITS, FORMER_DECLARATIONS, Reads, Traits


def test_the_default_promises_nothing() -> None:
    assert Traits() == DEFAULT_TRAITS
    assert {each.name: getattr(DEFAULT_TRAITS, each.name) for each in fields(Traits)} == {
        "filter_reads": Reads.CLUSTER,
        "score_reads": Reads.CLUSTER,
        "uses_volumes": True,
        "per_node": False,
        "even_normalize": False,
        "in_range": False,
        "signs": True,
        "annotations": (),
    }


def test_what_is_read_is_ordered_from_least_to_most() -> None:
    assert list(Reads) == [Reads.NODE, Reads.RESOURCES, Reads.ROW, Reads.LOCAL, Reads.CLUSTER]
    assert Reads.NODE < Reads.RESOURCES < Reads.ROW < Reads.LOCAL < Reads.CLUSTER


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        pytest.param(
            {"filter_read": Reads.NODE}, "Traits has no filter_read; did you mean filter_reads?", id="a letter less"
        ),
        pytest.param({"in_ranges": True}, "Traits has no in_ranges; did you mean in_range?", id="a letter more"),
        pytest.param(
            {"even_normalise": True},
            "Traits has no even_normalise; did you mean even_normalize?",
            id="British spelling",
        ),
        pytest.param(
            {"colour": "blue"},
            "Traits has no colour; there are filter_reads, score_reads, uses_volumes, per_node, even_normalize, "
            "in_range, signs, annotations",
            id="nothing like it",
        ),
        pytest.param(
            {"filter_reads": "node"},
            "Traits(filter_reads='node'): "
            "expected one of Reads.NODE, Reads.RESOURCES, Reads.ROW, Reads.LOCAL, Reads.CLUSTER",
            id="a word for what is read",
        ),
        pytest.param(
            {"score_reads": 0},
            "Traits(score_reads=0): expected one of Reads.NODE, Reads.RESOURCES, Reads.ROW, Reads.LOCAL, Reads.CLUSTER",
            id="a number for what is read",
        ),
        pytest.param({"in_range": 1}, "Traits(in_range=1): expected one of True or False", id="a number for a claim"),
        pytest.param(
            {"annotations": "example.com/a"},
            "Traits(annotations='example.com/a'): expected a tuple of names",
            id="one name for several",
        ),
        pytest.param({"signs": None}, "Traits(signs=None): expected one of True or False", id="nothing for a claim"),
    ],
)
def test_a_wrong_declaration_is_refused_in_one_line(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        Traits(**declared)
    assert str(caught.value) == message


def test_traits_are_given_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        Traits(Reads.NODE)  # type: ignore[call-arg]


def test_traits_are_a_value() -> None:
    traits = Traits(filter_reads=Reads.ROW, signs=False)
    assert traits == Traits(signs=False, filter_reads=Reads.ROW) and hash(traits) == hash(replace(traits))
    assert replace(traits, in_range=True) == Traits(filter_reads=Reads.ROW, signs=False, in_range=True)
    assert copy.deepcopy(traits) == pickle.loads(pickle.dumps(traits)) == traits
    with pytest.raises(FrozenInstanceError):
        traits.in_range = True  # type: ignore[misc]


def test_what_replaces_a_former_declaration_can_be_written() -> None:
    """Every line that the message names is one that Python accepts."""
    for former, line in FORMER_DECLARATIONS.items():
        if line.startswith("traits = "):
            names: dict[str, Any] = {"Traits": Traits, "Reads": Reads}
            exec(line.replace("Reads.…", "Reads.NODE"), names)
            assert names["traits"] != DEFAULT_TRAITS, former
