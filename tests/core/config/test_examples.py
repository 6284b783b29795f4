"""The example configurations do what their README says."""

from __future__ import annotations

from pathlib import Path

from mooring.core.config.load import load_config_file, load_document, read_document
from mooring.core.config.policy import convert_policy
from mooring.core.config.profile import effective_args, expand_all

EXAMPLES = Path(__file__).parents[3] / "examples" / "configurations"


def test_bin_packing() -> None:
    config = load_config_file(EXAMPLES / "bin-packing.yaml").config
    score = dict(expand_all(config)["default-scheduler"]["score"])
    assert score["NodeResourcesFit"] == 10
    assert "NodeResourcesBalancedAllocation" not in score
    assert effective_args(config.profiles[0], "NodeResourcesFit").scoring_strategy.type == "MostAllocated"


def test_two_profiles() -> None:
    expanded = expand_all(load_config_file(EXAMPLES / "two-profiles.yaml").config)
    assert expanded["quick"]["score"] == []
    assert len(expanded["default-scheduler"]["score"]) == 9


def test_policy() -> None:
    converted, notes = convert_policy(read_document((EXAMPLES / "policy.json").read_bytes()))
    config = load_document(converted).config
    assert [extender.request_timeout_s for extender in config.extenders] == [5.0]
    assert not any(note.lost for note in notes)
