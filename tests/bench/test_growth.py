"""Growth: sizes, the fit, curves, the picture. No test looks at a time."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from mooring.api.errors import InputError
from mooring.bench import growth
from mooring.bench.growth import Cost, GrowthPlan, Measured, Size
from mooring.bench.growth_plot import growth as picture


@pytest.mark.parametrize(
    ("sizes", "costs", "want"),
    [
        pytest.param([1, 10, 100], [7, 7, 7], 0.0, id="flat"),
        pytest.param([500, 1000, 20_000], [5, 10, 200], 1.0, id="linear"),
        pytest.param([10, 100, 1000], [1, 100, 10_000], 2.0, id="quadratic"),
        pytest.param([0, 100, 10_000], [99, 1, 10], 0.5, id="a size of zero is not on a logarithmic axis"),
        pytest.param([5], [1], None, id="one point has no slope"),
        pytest.param([0, 5], [1, 1], None, id="nor has one point and a zero"),
    ],
)
def test_the_exponent_is_the_slope_between_logarithms(
    sizes: list[float], costs: list[float], want: float | None
) -> None:
    assert growth.exponent(sizes, costs) == (None if want is None else pytest.approx(want))


def test_the_steepest_part_is_found_where_the_whole_hides_it() -> None:
    sizes, costs = [1, 10, 100, 1000], [1, 1, 1, 100]
    assert growth.steepest(sizes, costs) == 2.0
    whole = growth.exponent(sizes, costs)
    assert whole is not None and whole < 1
    assert growth.steepest([0, 5], [1, 1]) is None


def test_a_size_that_both_sweeps_have_is_measured_once() -> None:
    plan = GrowthPlan(nodes=(10, 20), pods=(0, 200), pods_per_node=10, fixed_nodes=20)
    assert plan.sizes_by("nodes") == [Size(10, 100), Size(20, 200)]
    assert plan.sizes_by("pods") == [Size(20, 0), Size(20, 200)]
    assert plan.sizes() == [Size(10, 100), Size(20, 200), Size(20, 0)]


def test_running_pods_are_even_over_nodes_and_no_two_alike_share_one() -> None:
    pods = list(growth.running_pods(Size(200, 4000)))
    nodes: dict[str, list[str]] = {}
    for pod in pods:
        nodes.setdefault(pod.spec.node_name, []).append(pod.metadata.labels["app"])
    assert {len(apps) for apps in nodes.values()} == {20}
    assert all(len(set(apps)) == len(apps) for apps in nodes.values())
    assert len({app for apps in nodes.values() for app in apps}) == growth.APPS
    assert len({pod.metadata.uid for pod in pods}) == len(pods)


def test_every_kind_is_placed_and_taken_away_again() -> None:
    told: list[tuple[int, int]] = []
    result = growth.measure(
        Size(120, 240), list(growth.KINDS), 20, rounds=2, progress=lambda done, total: told.append((done, total))
    )
    assert [(cost.kind, cost.alike) for cost in result.costs] == [(k, alike) for k in growth.KINDS for alike in (1, 0)]
    assert all(cost.decisions == 20 for cost in result.costs)
    assert all(cost.placed == (0 if cost.kind == growth.NO_ROOM else 20) for cost in result.costs)
    assert all(0 < cost.p5_us <= cost.median_us for cost in result.costs)
    assert told[-1] == (20 * len(result.costs), 20 * len(result.costs))
    assert result.peak_mib > 0


def test_no_pod_is_refused_in_an_empty_cluster() -> None:
    assert growth.NO_ROOM not in growth.kinds_at(Size(10, 0), growth.KINDS)
    assert growth.kinds_at(Size(10, 10), growth.KINDS) == list(growth.KINDS)
    result = growth.measure(Size(5, 0), [growth.NO_ROOM, "plain"], 20, rounds=1)
    assert [cost.kind for cost in result.costs] == ["plain", "plain"]


def test_what_was_placed_is_gone_before_the_next_kind() -> None:
    cluster = growth.make_cluster(20)
    before = cluster.nodes().pod_count.copy()
    times, placed = growth.Deciding(cluster).place(growth._pods("spread", True), 5)
    assert (len(times), placed) == (5, 5)
    assert (cluster.nodes().pod_count == before).all()
    assert cluster.pods() == []


def measured(nodes: int, pods: int, low: float, *, kinds: tuple[str, ...] = ("plain", "spread")) -> Measured:
    costs = [Cost(kind, alike, 20, 20, low, 2 * low, 2 * low) for kind in kinds for alike in (True, False)]
    return Measured(Size(nodes, pods), costs, nodes_mib=nodes / 512, pods_mib=pods / 1024, peak_mib=99.0)


PLAN = GrowthPlan(nodes=(100, 200, 400), pods=(0, 2000, 4000), pods_per_node=10, fixed_nodes=200)
SIZES = [
    measured(100, 1000, 10.0),
    measured(200, 2000, 20.0),
    measured(400, 4000, 40.0),
    measured(200, 0, 20.0),
    measured(200, 4000, 22.0),
]


def test_curves_are_by_nodes_and_by_pods() -> None:
    curves = growth.curves(SIZES, PLAN)
    assert [(c.by, c.kind, c.alike) for c in curves] == [
        (by, kind, alike) for by in ("nodes", "pods") for kind in ("plain", "spread") for alike in (True, False)
    ]
    by_nodes, by_pods = curves[0], curves[4]
    assert (by_nodes.sizes, by_nodes.p5_us, by_nodes.median_us) == ([100, 200, 400], [10, 20, 40], [20, 40, 80])
    assert (by_nodes.exponent, by_nodes.steepest, by_nodes.ratio) == (1.0, 1.0, 4.0)
    assert (by_pods.sizes, by_pods.ratio) == ([0, 2000, 4000], 1.1)
    assert by_pods.exponent == pytest.approx(0.138, abs=0.001)


def test_a_curve_needs_two_sizes_and_may_miss_some() -> None:
    assert growth.curves(SIZES[:1], PLAN) == []
    curves = growth.curves([SIZES[0], SIZES[2]], PLAN)
    assert {(curve.by, tuple(curve.sizes)) for curve in curves} == {("nodes", (100, 400))}


def test_memory_is_that_of_the_largest_cluster() -> None:
    assert growth.memory(SIZES) == {"kib_per_node": 2.0, "kib_per_pod": 1.0}
    assert growth.memory([measured(100, 0, 1.0)]) == {"kib_per_node": 2.0}
    assert growth.memory([]) == {}


def test_a_document_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "growth.json"
    about = {"date": "today", "machine": {"cores": 2}, "versions": {"mooring": "1"}}
    path.write_text(json.dumps(growth.document(SIZES, PLAN, about)))
    assert growth.read(path) == (SIZES, about)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("{", "not JSON", id="not JSON"),
        pytest.param('{"format": "other"}', "not a result of mooring bench growth", id="something else"),
        pytest.param(f'{{"format": "{growth.FORMAT}", "sizes": [{{}}]}}', "sizes: ", id="without anything around"),
    ],
)
def test_a_file_that_is_not_a_result_is_rejected(content: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "growth.json"
    path.write_text(content)
    with pytest.raises(InputError, match=complaint):
        growth.read(path)
    with pytest.raises(InputError, match="no such file"):
        growth.read(tmp_path / "nothing.json")


def test_the_picture_has_a_line_per_curve_and_says_what_it_shows() -> None:
    drawn = picture(growth.curves(SIZES, PLAN), PLAN, "on a machine")
    root = ET.fromstring(drawn)
    lines = [element for element in root.iter() if element.tag.endswith("polyline")]
    assert len(lines) == 8
    assert drawn.count("<circle") == 8 * 3
    assert sum("stroke-dasharray" in line.attrib for line in lines) == 4
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    for wanted in ("on a machine", "running pods", "plain", "spread", "linear"):
        assert wanted in texts
    assert "µs, by nodes with 10 running pods each" in texts
    assert "µs, by running pods on 200 nodes" in texts
    assert "of nodes 1.00 / 1.00, of pods 0.14 / 0.14" in texts
    points = [tuple(map(float, pair.split(","))) for line in lines for pair in line.attrib["points"].split()]
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(0 <= x <= width and 0 <= y <= height for x, y in points)


def test_a_picture_of_before_and_now_has_the_same_axes() -> None:
    now = growth.curves(SIZES[:3], PLAN)
    before = [replace(curve, p5_us=[50 * cost for cost in curve.p5_us]) for curve in now]
    root = ET.fromstring(picture(now, PLAN, before=before))
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    titles = [each for each in texts if each.startswith(("before: ", "now: "))]
    assert [each.split(":")[0] for each in titles] == ["before", "now"]
    middle = texts.index(titles[1])
    marks = [each for each in texts if each.replace(",", "").isdigit()]
    assert sorted(marks[: len(marks) // 2]) == sorted(marks[len(marks) // 2 :]) and titles[0] in texts[:middle]


def test_a_picture_of_one_sweep_says_that_the_other_is_missing() -> None:
    drawn = picture(growth.curves(SIZES[:3], PLAN), PLAN)
    assert drawn.count("not measured") == 1
