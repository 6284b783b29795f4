"""The catalogue of instance types: CSV and JSON say the same, and mistakes are named with their line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.api.errors import InputError
from mooring.sim.catalogue import ON_DEMAND, SPOT, InstanceType, read_catalogue

HEAD = "type,cpu,memory,gpus,architecture,zone,price,spotPrice,interruptionsPerHour\n"
EXAMPLE = Path(__file__).parents[2] / "examples" / "catalogue.csv"


def test_the_example_is_read() -> None:
    found = read_catalogue(EXAMPLE)
    assert found.find("gpu-8", "south") == InstanceType(
        "gpu-8", "7910m", "61Gi", 1.35, gpus=1, zone="south", spot_price=0.45, interruptions_per_hour=0.08
    )
    assert found.find("gpu-8", "west") is None
    assert found.find("arm-4", "west") is found.find("arm-4")


def test_csv_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(HEAD + "a,4,16Gi,1,arm64,north,0.5,0.2,0.01\nb,1,1Gi,,,,1,,\n")
    rows = [
        {"type": "a", "cpu": 4, "memory": "16Gi", "gpus": 1, "architecture": "arm64", "zone": "north", "price": 0.5}
        | {"spotPrice": 0.2, "interruptionsPerHour": 0.01},
        {"type": "b", "cpu": "1", "memory": "1Gi", "price": 1, "spotPrice": None},
    ]
    (tmp_path / "c.json").write_text(json.dumps({"types": rows}))
    assert read_catalogue(tmp_path / "c.csv").rows == read_catalogue(tmp_path / "c.json").rows
    assert read_catalogue(rows).rows == read_catalogue(tmp_path / "c.csv").rows


def test_a_node_has_a_price_by_its_labels() -> None:
    found = read_catalogue(EXAMPLE)
    labels = {"node.kubernetes.io/instance-type": "gpu-8", "topology.kubernetes.io/zone": "north"}
    assert found.price_of(labels) == 1.25
    assert found.price_of({**labels, "karpenter.sh/capacity-type": SPOT}) == 0.5
    assert found.price_of({"node.kubernetes.io/instance-type": "unknown"}) is None
    row = found.find("gpu-8", "north")
    assert row is not None
    assert row.labels() == {**labels, "kubernetes.io/arch": "amd64", "karpenter.sh/capacity-type": ON_DEMAND}
    assert row.allocatable == {"cpu": "7910m", "memory": "61Gi", "pods": "110", "nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "expected at least one type", id="an empty file"),
        pytest.param(HEAD + "a,4,16Gi,0,amd64,north,x,,\n", r"c:2: price: found 'x'; expected a number", id="price"),
        pytest.param(HEAD + "a,4,16Gi,0,amd64,north,nan,,\n", "expected a number", id="a price that is no number"),
        pytest.param(HEAD + "a,4,16Gi,0,amd64,north,-1,,\n", "expected a number", id="a price below zero"),
        pytest.param(HEAD + "a,four,16Gi,0,amd64,north,1,,\n", "cpu: found 'four'; expected a quantity", id="cpu"),
        pytest.param(HEAD + "a,0,16Gi,0,amd64,north,1,,\n", "expected a quantity above 0", id="no cpu"),
        pytest.param(HEAD + "a,4,16Gi,0.5,amd64,north,1,,\n", "expected a whole number", id="half a GPU"),
        pytest.param(
            '[{"type": "a", "cpu": 4, "memory": "1Gi", "price": 1, "gpus": 1' + 400 * "0" + "}]",
            "gpus: found .*expected a number",
            id="a number of 400 digits",
        ),
        pytest.param(HEAD + "a,4\n", "expected 9 columns", id="a short line"),
        pytest.param(HEAD + "a,4,16Gi,0,amd64,north,1,,,,\n", "expected 9 columns", id="a long line"),
        pytest.param(HEAD + 2 * "a,4,1Gi,,,,1,,\n", "type a in every zone occurs twice", id="a type twice"),
        pytest.param("type,cpu,mem\na,4,1Gi\n", "column 'mem' is not known; did you mean memory", id="a wrong column"),
        pytest.param("type,cpu,memory\na,4,1Gi\n", "price is missing", id="a missing column"),
        pytest.param("[1]", "expected a list of types", id="JSON of something else"),
        pytest.param("[{]", "cannot be read as JSON", id="JSON that is cut off"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(InputError, match=message):
        read_catalogue(str(tmp_path / "c"))
