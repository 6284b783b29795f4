"""A simulation that is measured while it runs, and its record, have the same measures."""

from __future__ import annotations

import io

import pytest

from mooring.record.measures import Measures
from mooring.record.meter import MeasuringObserver, measure_record
from mooring.record.reader import Record
from mooring.record.recorder import Immediately, Recorder
from mooring.sim.simulate import Arrival, simulate
from mooring.testing import make_node, make_pod

GRACE = {"terminationGracePeriodSeconds": 2}


@pytest.fixture(scope="module")
def both() -> tuple[Measures, Measures]:
    """Ten pods on two nodes, one of which is evicted, and one that fits nowhere."""
    nodes = [make_node("a", cpu="4", zone="east"), make_node("b", cpu="2", zone="west")]
    arrivals = [Arrival(5.0 * i, make_pod(f"web-{i}", cpu="1500m", spec=GRACE), run_s=20.0 + 3 * i) for i in range(8)]
    arrivals.append(Arrival(41.0, make_pod("urgent", cpu="4", priority=1000, spec=GRACE), run_s=30.0))
    arrivals.append(Arrival(42.0, make_pod("huge", cpu="64", spec=GRACE)))
    sink, observer = io.BytesIO(), MeasuringObserver()
    recorder = Recorder(Immediately(sink), source="simulation")
    simulate(nodes, arrivals, observers=[recorder, observer])
    recorder.close()
    live = observer.measures()
    with Record(sink, "a record in memory") as record:
        return live, measure_record(record)


def test_pods_are_placed_evicted_and_refused(both: tuple[Measures, Measures]) -> None:
    live, _ = both
    assert live.row["placed"] >= 9 and live.row["pending"] == 1
    assert live.row["preemptions"] == 1 and live.row["victims"] >= 1
    assert live.row["attempts"] == live.row["placed"] + live.row["attemptsUnschedulable"]
    assert live.pending[0].example == "default/huge" and "Insufficient cpu" in live.pending[0].message
    assert [each.priority for each in live.waiting] == [None, 1000, 0]
    assert live.zones == ["east", "west"]


def test_a_record_has_the_same_measures(both: tuple[Measures, Measures]) -> None:
    live, recorded = both
    assert recorded.row.keys() == live.row.keys() and recorded.columns.keys() == live.columns.keys()
    whole = {name for name, value in live.row.items() if isinstance(value, int)}
    assert {name: recorded.row[name] for name in whole} == {name: live.row[name] for name in whole}
    assert recorded.started_at == pytest.approx(live.started_at, abs=0.01)
    # A record's times are in microseconds.
    assert recorded.seconds == pytest.approx(live.seconds, abs=1e-5)
    for name in live.row.keys() - whole:
        assert recorded.row[name] == pytest.approx(live.row[name], rel=1e-5, abs=1e-5), name


def test_a_record_is_measured_to_the_time_at_which_it_was_closed() -> None:
    sink = io.BytesIO()
    recorder = Recorder(Immediately(sink), source="simulation")
    simulate([make_node("a", cpu="4")], [Arrival(5.0, make_pod("web", cpu="1"))], observers=[recorder], until=3600.0)
    recorder.close()
    with Record(sink, "a record in memory") as record:
        assert max(at for at, _ in record.entries()) == pytest.approx(record.first_time + 5.0)
        measures = measure_record(record)
    assert measures.seconds == pytest.approx(3600.0, abs=0.1)
