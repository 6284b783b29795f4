"""Every configuration that a recorded case used loads, and its profiles can be expanded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.core.config.load import config_from_dict
from mooring.core.config.profile import expand_all

GOLDEN = Path(__file__).parents[2] / "parity" / "golden"


def _configs() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for family in sorted(GOLDEN.glob("*.jsonl.gz")):
        if family.stem.removesuffix(".jsonl") not in ("profiles", "batching", "preemption"):
            continue
        with gzip.open(family, "rt") as lines:
            for line in lines:
                case = json.loads(line)
                if case["config"] is not None:
                    found.setdefault(json.dumps(case["config"], sort_keys=True), case["config"])
    return found


@pytest.mark.parity
def test_every_recorded_configuration_loads() -> None:
    configs = _configs()
    assert configs
    for config in configs.values():
        loaded = config_from_dict(config)
        assert expand_all(loaded).keys() == {p.get("schedulerName", "default-scheduler") for p in config["profiles"]}
