"""The pieces of pictures: numbers and texts in SVG, round steps of axes, boxes of flame graphs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from mooring.bench import growth_plot
from mooring.bench.growth import NODES, Curve, GrowthPlan
from mooring.bench.perf import plot as svg
from mooring.bench.perf.plot import scale
from tools.profile_perf import collapsed, flame_graph

SVG = "{http://www.w3.org/2000/svg}"


def parsed(fragment: str) -> ET.Element:
    return ET.fromstring(f'<svg xmlns="http://www.w3.org/2000/svg">{fragment}</svg>')[0]


@pytest.mark.parametrize(
    ("value", "want"),
    [(0.0, "0"), (1.0, "1"), (1.5, "1.5"), (1.005, "1"), (2 / 3, "0.67"), (-0.001, "-0"), (12345.678, "12345.68")],
)
def test_numbers_are_short(value: float, want: str) -> None:
    assert svg.number(value) == want


@pytest.mark.parametrize("content", ["a < b & c", '"quoted"', "µs → ✓", "]]>"])
def test_any_text_can_stand_in_a_picture(content: str) -> None:
    assert parsed(svg.text(1, 2, content)).text == content
    assert parsed(svg.box(0, 0, 1, 1, "red", content))[0].text == content
    assert parsed(svg.dot(0, 0, "red", content))[0].text == content
    document = svg.document(10, 20, content, [])
    assert ET.fromstring(document.partition("\n")[2])[0].text == content


def test_lines_and_their_dashes() -> None:
    plain, dashed = parsed(svg.line(0, 1, 2.5, 3)), parsed(svg.line(0, 1, 2, 3, "#123456", "4 4"))
    assert [plain.get(name) for name in ("x1", "y1", "x2", "y2")] == ["0", "1", "2.5", "3"]
    assert plain.get("stroke-dasharray") is None
    assert (dashed.get("stroke"), dashed.get("stroke-dasharray")) == ("#123456", "4 4")
    assert parsed(svg.polyline([(0, 1), (2, 3)], "red")).get("points") == "0,1 2,3"


@pytest.mark.parametrize(
    ("highest", "step", "top"),
    [
        pytest.param(1, 0.2, 1, id="one"),
        pytest.param(7, 2, 8, id="seven"),
        pytest.param(10, 2, 10, id="ten exactly"),
        pytest.param(11, 5, 15, id="a little more than ten"),
        pytest.param(4321, 1000, 5000, id="thousands"),
        pytest.param(0.03, 0.01, 0.03, id="a small number"),
    ],
)
def test_steps_of_an_axis_are_round(highest: float, step: float, top: float) -> None:
    assert scale(highest) == pytest.approx((step, top))


@pytest.mark.parametrize(
    ("lowest", "highest", "first", "last"),
    [(3, 70, 2, 100), (10, 1000, 10, 1000), (0.5, 0.6, 0.5, 1), (0, 5, 0.1, 5)],
)
def test_marks_of_a_logarithmic_axis_enclose_the_values(
    lowest: float, highest: float, first: float, last: float
) -> None:
    axis = growth_plot._logarithmic(lowest, highest, 0, 100)
    assert (axis.marks[0], axis.marks[-1]) == (pytest.approx(first), pytest.approx(last))
    assert (axis.at(first), axis.at(last)) == (pytest.approx(0), pytest.approx(100))
    assert axis.at(0) == pytest.approx(0), "nothing is drawn outside"


def curve(**fields: Any) -> Curve:
    values: dict[str, Any] = {
        "by": NODES,
        "kind": "plain",
        "alike": True,
        "sizes": [10, 100],
        "p5_us": [5.0, 50.0],
        "median_us": [6.0, 60.0],
        "exponent": 1.0,
        "steepest": 1.0,
        "median_exponent": 1.0,
        "ratio": 10.0,
    }
    return Curve(**{**values, **fields})


def test_linear_growth_lies_on_the_linear_guide() -> None:
    picture = ET.fromstring(growth_plot.growth([curve()], GrowthPlan()).partition("\n")[2])
    (drawn,) = picture.findall(f"{SVG}polyline")
    ends = [tuple(map(float, point.split(","))) for point in str(drawn.get("points")).split()]
    lines = [
        tuple(float(str(line.get(name))) for name in ("x1", "y1", "x2", "y2"))
        for line in picture.findall(f"{SVG}line")
        if line.get("stroke-dasharray") == "1 3"
    ]
    assert lines == [pytest.approx((*ends[0], *ends[-1]), abs=0.02)]


def test_the_picture_says_the_power_and_what_was_not_measured() -> None:
    texts = [
        each.text
        for each in ET.fromstring(growth_plot.growth([curve()], GrowthPlan(), "today").partition("\n")[2]).iter()
    ]
    assert {"today", "not measured", "plain", f"of {NODES} 1.00"} <= set(texts)


STACKS = {"a (x.py);b (x.py)": 3, "a (x.py);c (y.py)": 1}


def test_boxes_of_a_flame_graph_are_as_wide_as_their_shares() -> None:
    picture = ET.fromstring(flame_graph(STACKS, "Mine").partition("\n")[2])
    boxes = {str(box[0].text): float(str(box.get("width"))) for box in picture.findall(f"{SVG}rect") if len(box)}
    assert set(boxes) == {"a (x.py): 100.0%", "b (x.py): 75.0%", "c (y.py): 25.0%"}
    assert boxes["b (x.py): 75.0%"] == pytest.approx(3 * boxes["c (y.py): 25.0%"], rel=0.01)


def test_a_frame_that_is_too_narrow_has_no_name_and_a_tiny_one_no_box() -> None:
    many = {f"a;{'x' * 200}": 10_000, "a;rare": 1}
    picture = ET.fromstring(flame_graph(many, "Mine").partition("\n")[2])
    titles = [str(box[0].text) for box in picture.findall(f"{SVG}rect") if len(box)]
    assert not any(title.startswith("rare") for title in titles)
    assert ET.fromstring(flame_graph({}, "Nothing").partition("\n")[2]) is not None


def test_collapsed_stacks_are_sorted_lines() -> None:
    assert collapsed({"b": 1, "a;c": 2}) == "a;c 2\nb 1\n"
