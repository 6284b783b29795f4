"""Metrics that differ between versions of Kubernetes: each version shows its own, under its own words."""

from __future__ import annotations

import pytest

from mooring.core.config.features import Features
from mooring.core.config.versions import VERSIONS
from mooring.live.metrics import SchedulerMetrics


def features_of(version: str) -> Features:
    return Features(VERSIONS[version])


FORMER, LATTER = "1.36", "1.37"
FORMER_CLAIMS = "scheduler_resourceclaim_creates_total"
LATTER_CLAIMS = "dynamic_resource_allocation_resourceclaim_creates_total"


@pytest.mark.parametrize(
    ("version", "shown", "hidden"),
    [
        pytest.param(FORMER, FORMER_CLAIMS, LATTER_CLAIMS, id="1.36"),
        pytest.param(LATTER, LATTER_CLAIMS, FORMER_CLAIMS, id="1.37"),
    ],
)
def test_a_created_claim_is_counted_under_the_versions_name(version, shown, hidden):
    metrics = SchedulerMetrics(features=features_of(version))
    metrics.versioned.claim_created(is_created=True)
    metrics.versioned.claim_created(is_created=False)
    text = metrics.render().decode()
    assert f"{shown}{{" in text and hidden not in text
    assert text.count(f"\n{shown}{{") == 2, "one that was written, one that was not"


@pytest.mark.parametrize(("version", "count"), [pytest.param(FORMER, 0, id="1.36"), pytest.param(LATTER, 1, id="1.37")])
def test_entities_of_the_queue_are_shown_from_1_37_on(version, count):
    metrics = SchedulerMetrics(features=features_of(version))
    metrics.versioned.queued_entities.labels("active", "pod").set(3)
    assert metrics.render().decode().count('scheduler_queued_entities{queue="active",type="pod"} 3\n') == count


@pytest.mark.parametrize(
    ("label", "former", "latter"),
    [
        pytest.param("NodeAdd", "NodeAdd", "NodeAdd", id="other events keep their names"),
        pytest.param("UnschedulablePodAdd", "UnschedulablePodAdd", "UnscheduledPodAdd", id="a new pod"),
        pytest.param(
            "UnschedulablePodUpdatePodLabel",
            "UnschedulablePodUpdatePodLabel",
            "TargetPodUpdatePodLabel",
            id="a change of the pod itself",
        ),
    ],
)
def test_events_have_the_names_of_the_version(label, former, latter):
    for version, want in ((FORMER, former), (LATTER, latter)):
        assert SchedulerMetrics(features=features_of(version)).versioned.event(label) == want


def test_help_texts_follow_the_version():
    former = SchedulerMetrics(features=features_of(FORMER)).render().decode()
    latter = SchedulerMetrics(features=features_of(LATTER)).render().decode()
    line = "# HELP scheduler_preemption_victims [STABLE] Number of selected preemption victims"
    assert f"{line}\n" in former and f"{line}\n" not in latter
    assert f"{line} for preemption initiated by a single pod\n" in latter
