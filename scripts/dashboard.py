"""Writes deploy/monitoring/dashboard.json, a Grafana dashboard over the scheduler's metrics.

python scripts/dashboard.py            write it
python scripts/dashboard.py --check    fail if the file is not what this script writes
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parents[1] / "deploy" / "monitoring" / "dashboard.json"
SOURCE = {"type": "prometheus", "uid": "${source}"}
WIDTH, HEIGHT = 8, 7
JOB = 'job="$job"'


class Panel(NamedTuple):
    """A graph: what it is called, what it says, its unit, and (expression, legend) of its lines."""

    title: str
    says: str
    unit: str
    lines: tuple[tuple[str, str], ...]


def _quantiles(metric: str, by: str = "") -> tuple[tuple[str, str], ...]:
    inner = f"sum by (le{', ' + by if by else ''}) (rate({metric}_bucket{{{JOB}}}[$__rate_interval]))"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple((f"histogram_quantile({q}, {inner})", f"p{int(q * 100)}{legend}") for q in (0.5, 0.99))


def _rate(metric: str, by: str, more: str = "") -> tuple[tuple[str, str], ...]:
    return ((f"sum by ({by}) (rate({metric}{{{JOB}{more}}}[$__rate_interval]))", f"{{{{{by}}}}}"),)


def _gauge(metric: str, by: str) -> tuple[tuple[str, str], ...]:
    return ((f"sum by ({by}) ({metric}{{{JOB}}})", f"{{{{{by}}}}}"),)


PANELS = (
    Panel(
        "Leader",
        "1 where a replica holds the lease; the sum must be 1",
        "short",
        ((f"leader_election_master_status{{{JOB}}}", "{{pod}}"),),
    ),
    Panel("Attempts", "by result", "reqps", _rate("scheduler_schedule_attempts_total", "result")),
    Panel("Pending pods", "by queue", "short", _gauge("scheduler_pending_pods", "queue")),
    Panel(
        "First attempt to bound", "what a pod's owner feels", "s",
        _quantiles("scheduler_pod_scheduling_sli_duration_seconds"),
    ),
    Panel(
        "Attempt, with binding", "by result", "s",
        _quantiles("scheduler_scheduling_attempt_duration_seconds", "result"),
    ),
    Panel("Decision", "without binding", "s", _quantiles("scheduler_scheduling_algorithm_duration_seconds")),
    Panel("Why pods wait", "by plugin", "short", _gauge("scheduler_unschedulable_pods", "plugin")),
    Panel("Into the queues", "by event", "reqps", _rate("scheduler_queue_incoming_pods_total", "event")),
    Panel(
        "Extension points", "seconds per second", "s",
        ((f"sum by (extension_point) (rate(scheduler_framework_extension_point_duration_seconds_sum{{{JOB}}}"
          "[$__rate_interval]))", "{{extension_point}}"),),
    ),
    Panel(
        "Plugins", "99th percentile, sampled", "s",
        (("histogram_quantile(0.99, sum by (le, plugin) (rate(scheduler_plugin_execution_duration_seconds_bucket"
          f"{{{JOB}}}[$__rate_interval])))", "{{plugin}}"),),
    ),
    Panel("Preemption", "attempts, and victims per second", "short", (
        (f"sum(rate(scheduler_preemption_attempts_total{{{JOB}}}[$__rate_interval]))", "attempts"),
        (f"sum(rate(scheduler_preemption_victims_sum{{{JOB}}}[$__rate_interval]))", "victims"),
    )),
    Panel("Cache", "nodes, pods, assumed pods", "short", _gauge("scheduler_cache_size", "type")),
    Panel("Requests to the API server", "by status", "reqps", _rate("rest_client_requests_total", "code")),
    Panel(
        "Requests to the API server", "how long they take", "s",
        _quantiles("rest_client_request_duration_seconds", "verb"),
    ),
    Panel("Waiting in permit", "by result", "s", _quantiles("scheduler_permit_wait_duration_seconds", "result")),
)  # fmt: skip


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, 24 // WIDTH)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for i, (expression, legend) in enumerate(panel.lines)
        ],
    }


def dashboard() -> dict[str, Any]:
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    job = {
        "name": "job",
        "label": "Scheduler",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(scheduler_pending_pods, job)",
        "refresh": 2,
    }
    return {
        "uid": "mooring-scheduler",
        "title": "Scheduler",
        "tags": ["kubernetes", "mooring"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source, job]},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def main() -> int:
    text = json.dumps(dashboard(), indent=2) + "\n"
    if "--check" in sys.argv[1:]:
        if FILE.read_text() == text:
            return 0
        print(f"{FILE.name} is not what scripts/dashboard.py writes; run it", file=sys.stderr)
        return 1
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
