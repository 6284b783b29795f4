"""Health checks by path, with upstream's texts."""

from __future__ import annotations

import pytest

from mooring.live.control import HealthChecks, HealthVerdict, ping


@pytest.fixture
def health():
    checks = HealthChecks()
    checks.add("ping", ping, "healthz", "livez")
    checks.add("lease", lambda: "lost", "healthz")
    checks.add("sync", ping, "readyz")
    return checks


@pytest.mark.parametrize(
    ("path", "options", "status", "body"),
    [
        pytest.param("livez", {}, 200, "ok", id="all is well"),
        pytest.param("livez", {"verbose": True}, 200, "[+]ping ok\nlivez check passed\n", id="at length"),
        pytest.param(
            "healthz",
            {},
            500,
            "[+]ping ok\n[-]lease failed: reason withheld\nhealthz check failed\n",
            id="a failure does not say why to strangers",
        ),
        pytest.param("healthz", {"exclude": ["lease"]}, 200, "ok", id="without the one that fails"),
        pytest.param(
            "healthz",
            {"exclude": ["lease"], "verbose": True},
            200,
            "[+]ping ok\n[+]lease excluded: ok\nhealthz check passed\n",
            id="what is left out is named",
        ),
        pytest.param(
            "livez",
            {"exclude": ["nonsense", "more"], "verbose": True},
            200,
            '[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "more", "nonsense"\n'
            "livez check passed\n",
            id="what is not there cannot be left out",
        ),
    ],
)
def test_a_path(health, path, options, status, body):
    assert health.run(path, **options) == HealthVerdict(status, body)


@pytest.mark.parametrize(
    ("path", "name", "verdict"),
    [
        pytest.param("healthz", "ping", HealthVerdict(200, "ok"), id="one that is well"),
        pytest.param("healthz", "lease", HealthVerdict(500, "internal server error: lost\n"), id="one that is not"),
        pytest.param("livez", "lease", None, id="one of another path"),
        pytest.param("nonsense", "ping", None, id="no such path"),
    ],
)
def test_a_single_check(health, path, name, verdict):
    assert health.run_one(path, name) == verdict


def test_a_check_that_raises_has_failed(health):
    def broken() -> str | None:
        raise ValueError("odd")

    health.add("broken", broken, "livez")
    assert health.run_one("livez", "broken") == HealthVerdict(500, "internal server error: ValueError: odd\n")


def test_every_answer_is_counted(health):
    health.run("healthz")
    health.run("healthz")
    text = health.render_slis().decode()
    assert 'kubernetes_healthcheck{name="lease",type="healthz"} 0\n' in text
    assert 'kubernetes_healthcheck{name="ping",type="healthz"} 1\n' in text
    assert 'kubernetes_healthchecks_total{name="lease",status="error",type="healthz"} 2\n' in text


def test_why_a_check_failed_is_logged(health, caplog):
    caplog.set_level("INFO")
    health.run("healthz")
    (record,) = caplog.records
    assert (record.getMessage(), record.values) == ("healthz check failed", {"checks": "lease: lost"})
