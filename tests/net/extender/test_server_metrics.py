"""What a served extender counts."""

from __future__ import annotations

import threading

from prometheus_client.parser import text_string_to_metric_families

from mooring.net.extender.sdk import CallFacts
from mooring.net.extender.workers import ServerMetrics, VerbMetrics


def samples(metrics: ServerMetrics, in_flight: int = 0, hung: int = 0) -> dict[tuple[str, ...], float]:
    text = metrics.render(in_flight=in_flight, hung=hung).decode()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_outcome_is_counted() -> None:
    metrics = ServerMetrics('odd "name"')
    verb = VerbMetrics(metrics, "filter")
    verb.count(CallFacts("default/a", 5, 3), 0.003)
    verb.count(CallFacts("default/b", 4, -1), 0.3)
    metrics.count_failed("filter", "error", 4.5)
    metrics.count_refused(404)
    found = samples(metrics, in_flight=2, hung=1)
    assert found["mooring_extender_requests_total", "200", "filter"] == 2
    assert found["mooring_extender_requests_total", "error", "filter"] == 1
    assert found["mooring_extender_requests_total", "404", ""] == 1
    assert found["mooring_extender_nodes_total", "offered", "filter"] == 9
    assert found["mooring_extender_nodes_total", "kept", "filter"] == 3, "an unknown number counts as none"
    assert found["mooring_extender_request_duration_seconds_count", "filter"] == 3
    assert found["mooring_extender_request_duration_seconds_bucket", "0.005", "filter"] == 1
    assert found["mooring_extender_requests_in_flight",] == 2
    assert found["mooring_extender_hung_calls",] == 1
    assert found["mooring_extender_info", 'odd "name"'] == 1


def test_threads_lose_no_count() -> None:
    metrics = ServerMetrics("a")
    verb = VerbMetrics(metrics, "filter")

    def work() -> None:
        for _ in range(2000):
            verb.count(CallFacts("", 1, 1), 0.0)
            metrics.count_refused(400)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = samples(metrics)
    assert found["mooring_extender_requests_total", "200", "filter"] == 8000
    assert found["mooring_extender_requests_total", "400", ""] == 8000
