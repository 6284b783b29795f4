"""Random workloads: the same seed draws the same, rates and weights are kept on average."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mooring.api.errors import InputError
from mooring.sim.workload import Arrival, Generated, Setting


def drawn(seed: int = 0, **fields: Any) -> list[Arrival]:
    return list(Generated(fields).arrivals(Setting(seed, [], lambda pod: None)))


def test_the_same_seed_draws_the_same_and_another_draws_others() -> None:
    fields = {"rate": "1/s", "count": 50, "run": {"exponential": "1m"}}
    times = [[(each.at_s, each.run_s) for each in drawn(seed, **fields)] for seed in (1, 1, 2)]
    assert times[0] == times[1] != times[2]


def test_pods_come_at_the_rate_on_average() -> None:
    arrivals = drawn(rate="60/m", **{"for": "1h"})
    assert 3400 < len(arrivals) < 3800
    assert Generated({"rate": "60/m", "for": "1h"}).total == 3600


def test_a_rate_follows_the_day_and_the_next_day_again() -> None:
    arrivals = drawn(rate={"08:00": "100/h", "18:00": "1/h"}, **{"for": "2d"})
    by_hour = Counter(int(each.at_s // 3600) for each in arrivals)
    working = [by_hour[hour] for day in (0, 24) for hour in range(day + 8, day + 18)]
    resting = [by_hour[hour] for hour in range(48) if not 8 <= hour % 24 < 18]
    assert min(working) > 50 and max(resting) < 10


def test_fixed_pauses() -> None:
    assert [each.at_s for each in drawn(every="10s", count=4)] == [0, 10, 20, 30]
    assert [each.at_s for each in drawn(every="10s", **{"for": "25s"})] == [0, 10, 20]
    assert [each.at_s for each in drawn(count=3)] == [0, 0, 0]


def test_templates_come_by_weight_with_what_all_have_in_common() -> None:
    templates = [{"weight": 3, "name": "a-{i}", "cpu": "1"}, {"name": "b-{i}", "memory": "1Gi", "labels": {"app": "b"}}]
    arrivals = drawn(count=2000, run="5m", labels={"app": "a"}, templates=templates)
    kinds = Counter(each.pod.name[0] for each in arrivals)
    assert 1400 < kinds["a"] < 1600 and kinds.total() == 2000
    assert {each.run_s for each in arrivals} == {300}
    assert {(each.pod.name[0], each.pod.labels["app"]) for each in arrivals} == {("a", "a"), ("b", "b")}


@pytest.mark.parametrize(
    ("run", "least", "most", "middle"),
    [
        pytest.param({"uniform": ["1m", "3m"]}, 60, 180, 120, id="uniform"),
        pytest.param({"exponential": "2m"}, 0, 3000, 120 * 0.693, id="exponential"),
        pytest.param({"logNormal": {"median": "2m", "sigma": 0.5}}, 1, 3000, 120, id="log-normal"),
    ],
)
def test_run_times_are_drawn(run: Any, least: float, most: float, middle: float) -> None:
    times = sorted(each.run_s or 0 for each in drawn(count=2001, run=run))
    assert least <= times[0] and times[-1] <= most and times[1000] == pytest.approx(middle, rel=0.1)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({"rate": "1/s"}, "count or for is missing", id="no end"),
        pytest.param({"for": "1h"}, "rate or every is missing", id="no rate"),
        pytest.param({"for": "1h", "every": "0s"}, "every: expected a time between two pods", id="endless"),
        pytest.param({"count": 1, "rate": "1/s", "every": "1s"}, "exclude each other", id="two rates"),
        pytest.param({"count": 1, "rate": "often"}, "such as 5/s or 300/h, found 'often'", id="a rate in words"),
        pytest.param({"count": 1, "rate": {"8": "1/s"}}, "a time of the day such as 08:30", id="an hour alone"),
        pytest.param({"count": 1, "rate": "0/s"}, "expected more than 0", id="never"),
        pytest.param({"count": 1, "run": {"normal": 3}}, "expected a duration or one of exponential", id="unknown"),
        pytest.param({"count": 1, "run": {"uniform": ["2m", "1m"]}}, "run: uniform: expected the shorter", id="order"),
        pytest.param({"count": 1, "name": "web"}, "expected a name with {i} in it", id="one name for all"),
        pytest.param({"count": 1, "cpu": "{cores}"}, "{cores}: a generated pod has no columns", id="a column"),
        pytest.param({"count": 1, "templates": []}, "expected a list of templates", id="no template"),
        pytest.param({"count": 1, "templates": [{"weight": 0}]}, "weight: expected a number above 0", id="no weight"),
        pytest.param({"count": 1, "templates": [{"wieght": 1}]}, "unknown field 'wieght'", id="a field misspelt"),
    ],
)
def test_mistakes(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Generated(fields)
