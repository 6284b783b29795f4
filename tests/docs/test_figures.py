"""Figures in the documentation are the code's: each sentence here is looked for with the value that the code has."""

from __future__ import annotations

import re
import tomllib

import pytest

from mooring.controlplane.cluster.node_lifecycle import GRACE_S as NODE_GRACE_S
from mooring.core.config.types import ClientConnectionConfiguration, Extender, KubeSchedulerConfiguration
from mooring.live.context import SchedulerOptions
from mooring.live.leader_election import JITTER_FACTOR, LeaderElectionSettings
from mooring.live.observer import MAX_NODES
from mooring.live.process import DRAIN_S
from mooring.live.serving import ServingSettings
from mooring.net.extender.client import FAILURES, MAX_PAUSE_S, PAUSE_S
from mooring.net.extender.server import Limits
from mooring.record.measures import SAMPLES
from mooring.record.node_measures import COVERAGE, MOST_TYPICAL
from mooring.sim.imports.simulator import FIRST_MOMENT_S

from .texts import REPOSITORY

LEASE, LIMITS, CONFIGURATION = LeaderElectionSettings(), Limits(), KubeSchedulerConfiguration()
LATEST_S = LEASE.retry_period_s * (1 + JITTER_FACTOR)  # when a waiting replica asks for the lease again, at the latest
ASKS = f"every {LEASE.retry_period_s:g} to {LATEST_S:g} s"
QPS = ClientConnectionConfiguration().qps


def text(page: str) -> str:
    return re.sub(r"\s+", " ", (REPOSITORY / page).read_text(encoding="utf-8"))


def recorded_verdicts() -> str:
    overview, *others = re.findall(r"\| \*\*total\*\* (.+)\|", (REPOSITORY / "docs/parity.md").read_text("utf-8"))
    steps = [*re.findall(r"/ (\d+)", overview), *(re.findall(r"\d+", row)[1] for row in others)]
    return f"{sum(map(int, steps)):,}"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("docs/report.md", f"at most {2 * SAMPLES + 1} samples"),
        ("docs/report.md", f"stand for {COVERAGE:.0%}".replace("%", " %")),
        ("docs/report.md", f"({MOST_TYPICAL} at most)"),
        ("docs/import.md", f"in its first {'five' if FIRST_MOMENT_S == 5 else FIRST_MOMENT_S} seconds"),
        ("docs/run/runbook/not-leading.md", f"which may take up to {DRAIN_S:g} s"),
        ("docs/run/runbook/not-leading.md", f"asks for the lease {ASKS}"),
        ("docs/run/runbook/not-leading.md", f"`leaseDuration` ({LEASE.lease_duration_s:g} s)"),
        ("docs/run/runbook/not-leading.md", f"`renewDeadline` ({LEASE.renew_deadline_s:g} s)"),
        ("docs/run/runbook/upgrade.md", f"another replica leads within {LATEST_S:g} s"),
        ("docs/run/replace.md", f"which comes {ASKS}"),
        ("deploy/base/deployment.yaml", f"bindings under way get {DRAIN_S:g} seconds"),
        ("deploy/chart/mooring/templates/deployment.yaml", f"bindings under way get {DRAIN_S:g} seconds"),
        ("docs/run/monitoring.md", f"on port {ServingSettings().port}"),
        ("docs/run/monitoring.md", f"has the {MAX_NODES} best nodes"),
        ("docs/run/runbook/slow-decisions.md", f"limit is {QPS:g} requests per second by default"),
        ("docs/run/sizing.md", f"`clientConnection.qps`, {QPS:g} by default"),
        ("docs/run/runbook/extender-down.md", f"{FAILURES} times in a row is not called for {PAUSE_S:g} s"),
        ("docs/run/runbook/extender-down.md", f"pauses of up to {MAX_PAUSE_S:g} s"),
        (
            "docs/run/runbook/extender-down.md",
            f"`httpTimeout`, {Extender().request_timeout_s:g} s if it is not set",
        ),
        ("docs/extend/extenders.md", f"`--threads` ({LIMITS.threads}) at once"),
        ("docs/extend/extenders.md", f"{LIMITS.handler_timeout_s:g} s by default"),
        ("docs/extend/extenders.md", f"{LIMITS.threads} run and {LIMITS.waiting} wait"),
        ("docs/extend/extenders.md", f"more than {LIMITS.connections} connections"),
        ("docs/extend/extenders.md", f"bodies of more than {LIMITS.total_body_bytes >> 20} MiB at once"),
        ("docs/parity.md", f"`--plugin-timeout` ({SchedulerOptions().plugin_timeout_s:g} s)"),
        ("docs/parity.md", f"`--attempt-timeout` ({SchedulerOptions().attempt_timeout_s:g} s)"),
        (
            "docs/glossary.md",
            f"doubles from {CONFIGURATION.pod_initial_backoff_seconds} s to {CONFIGURATION.pod_max_backoff_seconds} s",
        ),
        ("docs/scenarios.md", f"{NODE_GRACE_S:g} seconds later the node is unreachable"),
        ("README.md", f"of {recorded_verdicts()} recorded verdicts"),
    ],
)
def test_a_sentence_has_the_codes_figure(page: str, sentence: str) -> None:
    assert sentence in text(page)


def test_the_grace_period_of_the_manifests_is_longer_than_bindings_may_take() -> None:
    for page in ("deploy/base/deployment.yaml", "deploy/static-pod/mooring.yaml"):
        (grace,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", text(page))
        assert int(grace) > DRAIN_S


def test_every_extra_is_on_the_page_about_installing() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", (REPOSITORY / "docs/install.md").read_text("utf-8"), re.M))
    assert rows.keys() == extras.keys()
    for extra in ("fast", "docs"):
        assert [re.split(r"[\[>]", package)[0] for package in extras[extra]] == rows[extra].split(", ")


def test_what_the_front_page_says_about_speed_is_on_the_page_about_performance() -> None:
    rows = re.findall(r"^\| (\w+)/[^|]+ \| ([\d.]+)×[^|]* \|", (REPOSITORY / "docs/performance.md").read_text(), re.M)
    ratios = {case: float(ratio) for case, ratio in rows}
    plain = ratios["SchedulingBasic"]
    spread = [ratio for case, ratio in ratios.items() if case.endswith(("Spreading", "PodAffinity", "PodAntiAffinity"))]
    said = text("README.md")
    assert f"bound {plain:g} times as many plain pods" in said
    assert f"and {min(spread):g} to {max(spread):g} times as many spread or affine ones" in said
