"""Metric names, types, labels, buckets and HELP texts as kube-scheduler's; numbers as Go writes them."""

from __future__ import annotations

import gc
import itertools
import json
import re
import threading
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mooring.core.config.features import Features
from mooring.core.config.versions import V1_36, V1_37
from mooring.live.metrics import FOLD, SchedulerMetrics
from mooring.net.prometheus import HistogramChild, MetricsRegistry, exponential_buckets, go_float

WIRE = Path(__file__).parent / "wire"
RECORDED = (WIRE / "metrics.txt").read_text()


def families(text: str) -> dict[str, dict]:
    """Name → help, type, label names and bucket bounds of a scrape."""
    found: dict[str, dict] = {}
    current: dict = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, help_text = line.split(" ", 3)
            current = found[name] = {"help": help_text, "labels": set(), "le": []}
        elif line.startswith("# TYPE "):
            current["type"] = line.split(" ")[3]
        else:
            for label, value in re.findall(r'(\w+)="([^"]*)"', line):
                if label != "le":
                    current["labels"].add(label)
                elif value not in current["le"]:
                    current["le"].append(value)
    return found


WANTED = {
    name: family
    for name, family in families(RECORDED).items()
    if name.startswith(("scheduler_", "rest_client_", "version_info"))
}


def exercised() -> SchedulerMetrics:
    """Metrics with one child in every family."""
    metrics = SchedulerMetrics()
    for name in metrics.registry.names():
        family = metrics.registry._families[name]
        family.labels(*("" for _ in family.label_names))
    return metrics


@pytest.mark.parametrize("name", sorted(WANTED))
def test_a_family_is_as_recorded(name):
    ours = families(exercised().render().decode())
    assert ours[name] == WANTED[name]


def test_recorded_label_values_fit_our_labels():
    metrics = exercised()
    for name, labels in json.loads((WIRE / "metrics-labels.json").read_text()).items():
        family = metrics.registry._families[name]
        assert set(labels) <= set(family.label_names), name


def test_the_official_parser_reads_it():
    metrics = exercised()
    metrics.schedule_attempts.labels("scheduled", 'odd"\\\nname').inc(3)
    metrics.scheduling_attempt_duration.labels("scheduled", "p").observe(0.0015)
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }
    assert samples["scheduler_schedule_attempts_total", (("profile", 'odd"\\\nname'), ("result", "scheduled"))] == 3
    name = "scheduler_scheduling_attempt_duration_seconds_bucket"
    assert samples[name, (("le", "0.001"), ("profile", "p"), ("result", "scheduled"))] == 0
    assert samples[name, (("le", "0.002"), ("profile", "p"), ("result", "scheduled"))] == 1
    assert samples[name, (("le", "+Inf"), ("profile", "p"), ("result", "scheduled"))] == 1
    assert samples["process_resident_memory_bytes", ()] > 0


def test_a_bound_is_inclusive():
    registry = MetricsRegistry()
    histogram = registry.histogram("h", "x", buckets=(1.0, 2.0))
    for value in (1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.labels().counts == [1, 2, 1]


def test_families_without_children_are_not_shown():
    registry = MetricsRegistry()
    labelled = registry.counter("a_total", "x", ("b",))
    registry.counter("c_total", "y")
    assert registry.render() == "# HELP c_total y\n# TYPE c_total counter\nc_total 0\n"
    labelled.labels("v").inc()
    assert 'a_total{b="v"} 1\n' in registry.render()
    labelled.clear()
    assert "a_total" not in registry.render()


def test_reset_forgets_only_the_schedulers_counts():
    metrics = SchedulerMetrics()
    metrics.schedule_attempts.labels("error", "p").inc()
    metrics.requested("host", "GET", "200", 0.1, 0, 300)
    metrics.reset()
    text = metrics.render().decode()
    assert "scheduler_schedule_attempts_total" not in text
    assert 'rest_client_requests_total{code="200",host="host",method="GET"} 1' in text


def test_requests_are_counted_timed_and_measured():
    metrics = SchedulerMetrics()
    metrics.held_back("host", "POST", 0.2)
    metrics.requested("host", "POST", "201", 0.1, 70, 300)
    metrics.requested("host", "POST", "<error>", 0.1, 70, 0)
    text = metrics.render().decode()
    for line in (
        'rest_client_rate_limiter_duration_seconds_bucket{host="host",verb="POST",le="0.25"} 1',
        'rest_client_request_size_bytes_bucket{host="host",verb="POST",le="256"} 2',
        'rest_client_response_size_bytes_count{host="host",verb="POST"} 1',
        'rest_client_requests_total{code="<error>",host="host",method="POST"} 1',
    ):
        assert f"{line}\n" in text


@pytest.mark.parametrize(
    ("kubernetes", "release", "before"),
    [pytest.param(V1_36, "1.36", "1.35", id="1.36"), pytest.param(V1_37, "1.37", "1.36", id="1.37")],
)
def test_versions_are_those_of_the_kubernetes_we_decide_as(kubernetes, release, before):
    text = SchedulerMetrics(version="0.9", features=Features(kubernetes)).render().decode()
    assert (
        f'version_info{{binary="{release}",component="kube",emulation="{release}",min_compat="{before}"}} 1\n' in text
    )
    assert f'git_version="{kubernetes.tag}+mooring0.9"' in text


def test_metrics_of_another_version_are_counted_and_not_shown():
    for version, name in (
        (V1_36, "scheduler_resourceclaim_creates_total"),
        (V1_37, "dynamic_resource_allocation_resourceclaim_creates_total"),
    ):
        metrics = SchedulerMetrics(features=Features(version))
        metrics.versioned.claim_created(is_created=True)
        metrics.versioned.queued_entities.labels("active", "pod").set(3)
        text = metrics.render().decode()
        assert f"\n{name}{{" in text and text.count("resourceclaim_creates_total{") == 1
        assert ('scheduler_queued_entities{queue="active",type="pod"} 3' in text) is (version is V1_37)
        assert ("unschedulableEntities" in text) is (version is V1_37)


@pytest.mark.parametrize(
    ("label", "newer"),
    [
        pytest.param("UnschedulablePodAdd", "UnscheduledPodAdd", id="a new pod"),
        pytest.param("UnschedulablePodDelete", "UnscheduledPodDelete", id="a pod that is gone"),
        pytest.param("UnschedulablePodUpdatePodToleration", "TargetPodUpdatePodToleration", id="the pod's own update"),
        pytest.param("AssignedPodAdd", "AssignedPodAdd", id="a pod on a node"),
        pytest.param("UnschedulableTimeout", "UnschedulableTimeout", id="no event of a pod"),
    ],
)
def test_labels_of_events(label, newer):
    names = [SchedulerMetrics(features=Features(version)).versioned.event(label) for version in (V1_36, V1_37)]
    assert names == [label, newer]


def test_gauges_can_be_brought_up_to_date_when_shown():
    metrics = SchedulerMetrics()
    metrics.on_render(lambda: metrics.pending_pods.labels("active").set(7))
    assert 'scheduler_pending_pods{queue="active"} 7\n' in metrics.render().decode()


def test_disabled_metrics_are_not_shown():
    metrics = SchedulerMetrics()
    assert metrics.registry.disable(["scheduler_preemption_attempts_total", "nonsense"]) == ["nonsense"]
    assert "scheduler_preemption_attempts_total" not in metrics.render().decode()


def test_wrong_labels_are_a_mistake():
    metrics = SchedulerMetrics()
    with pytest.raises(ValueError, match="has labels"):
        metrics.schedule_attempts.labels("scheduled")
    with pytest.raises(ValueError, match="registered twice"):
        metrics.registry.counter("scheduler_schedule_attempts_total", "")


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (0.0, "0"),
        (3.0, "3"),
        (-2.5, "-2.5"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (999999.0, "999999"),
        (1000000.0, "1e+06"),
        (1048576.0, "1.048576e+06"),
        (1234567.25, "1.23456725e+06"),
        (123456.75, "123456.75"),
        (1.794773505e9, "1.794773505e+09"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_as_go_writes_them(value, want):
    assert go_float(value) == want


def test_buckets_agree_to_the_last_digit():
    bounds = [go_float(bound) for bound in exponential_buckets(0.00001, 1.5, 20)]
    assert [*bounds, "+Inf"] == WANTED["scheduler_plugin_execution_duration_seconds"]["le"]


ABSENT = {
    "workqueue_": "there are no work queues",
    "go_": "this is not Go",
    "process_": "written beside the table, by process_metrics",
    "apiserver_": "about the serving library of Go's components",
    "authenticated_user_requests": "about the serving library of Go's components",
    "authentication_": "about the serving library of Go's components",
    "authorization_": "about the serving library of Go's components",
    "disabled_metrics_total": "about Go's metrics library",
    "hidden_metrics_total": "about Go's metrics library",
    "registered_metrics_total": "about Go's metrics library",
    "kubernetes_build_info": "its labels are ours",
    "aggregator_": "about the serving library of Go's components",
    "cardinality_enforcement_unexpected_categorizations_total": "about Go's metrics library",
    "hidden_": "about Go's metrics library",
}
"""Families of a recorded scrape that are not in the table, by prefix, and why."""


def test_what_kube_scheduler_shows_is_shown_here_or_left_out_for_a_reason():
    ours = set(SchedulerMetrics().registry.names())
    missing = [name for name in families(RECORDED) if name not in ours and not name.startswith(tuple(ABSENT))]
    assert missing == []


def test_an_own_metric_has_the_prefix_mooring():
    everything = Path(__file__).parents[1] / "parity" / "golden" / "wire" / "metrics.txt"
    upstream = set(families(everything.read_text()))
    extra = [name for name in SchedulerMetrics().registry.names() if name not in upstream]
    unrecorded = {  # upstream's, too, but shown only once there is something to show
        "leader_election_master_status",
        "scheduler_dra_bindingconditions_allocations_total",
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        "scheduler_permit_wait_duration_seconds",
    }
    assert {name for name in extra if not name.startswith("mooring_")} == unrecorded


@pytest.mark.parametrize("name", SchedulerMetrics().registry.names())
def test_every_help_text_says_how_stable_the_metric_is(name):
    family = SchedulerMetrics().registry._families[name]
    assert re.match(r"\[(ALPHA|BETA|STABLE)\] \S", family.help_text), family.help_text


def test_a_scrape_in_another_thread_never_breaks():
    """The endpoint renders while the scheduler counts: children may appear at any moment."""
    metrics, is_over, scrapes = SchedulerMetrics(), threading.Event(), []

    def scrape() -> None:
        while not is_over.is_set():
            scrapes.append(len(metrics.exposition()))

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        for number in range(3000):
            metrics.schedule_attempts.labels("scheduled", f"profile-{number}").inc()
            metrics.scheduling_attempt_duration.labels("scheduled", f"profile-{number % 50}").observe(0.1)
    finally:
        is_over.set()
        thread.join()
    assert scrapes and scrapes == sorted(scrapes)
    assert metrics.exposition().count(b"scheduler_schedule_attempts_total{") == 3000


def test_a_series_that_appears_in_the_middle_of_a_scrape_does_not_break_it():
    """A garbage collection can let another thread run anywhere; here it adds the series itself."""
    metrics, numbers = SchedulerMetrics(), itertools.count()
    for number in range(200):
        metrics.schedule_attempts.labels("scheduled", f"profile-{number}").inc()

    def appear(phase: str, info: dict[str, int]) -> None:
        metrics.schedule_attempts.labels("scheduled", f"late-{next(numbers)}")

    threshold = gc.get_threshold()
    gc.callbacks.append(appear)
    gc.set_threshold(1)
    try:
        shown = metrics.exposition()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(appear)
    assert shown.count(b'profile="profile-') == 200
    assert next(numbers)


def test_what_is_noted_counts_as_what_is_observed():
    noted, observed = HistogramChild((1.0, 2.0)), HistogramChild((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 3.0, 0.1):
        noted.later(value)
        observed.observe(value)
    assert (noted.counts, noted.sum) == (observed.counts, observed.sum)
    noted.later(5.0)
    assert noted.counts == [3, 1, 2]


def test_what_is_noted_does_not_become_much():
    metrics = SchedulerMetrics()
    child = metrics.rest_client_request_duration.labels("POST", "h")
    most = 0
    for _ in range(3 * FOLD):
        metrics.requested("h", "POST", "201", 0.1, 10, 10)
        most = max(most, len(child._noted))
    assert most <= FOLD
    assert sum(child.counts) == 3 * FOLD
