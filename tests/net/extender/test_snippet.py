"""The configuration that is printed for an extender."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.config.load import load_document
from mooring.net.extender.plugin_server import configuration_for, entry_for
from mooring.net.extender.server import ExtenderSettings, Served


def served(*verbs: str, **settings: Any) -> Served:
    return Served(ExtenderSettings(**settings), {verb: lambda body: (b"", None) for verb in verbs})  # type: ignore[misc, dict-item]


BASE = {"urlPrefix": "http://e", "filterVerb": "filter"}


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(served("filter"), {}, id="a filter, and nothing more is said"),
        pytest.param(served("filter", weight=7), {}, id="a weight without scores is left out"),
        pytest.param(
            served("filter", "prioritize", weight=7), {"prioritizeVerb": "prioritize", "weight": 7}, id="scores"
        ),
        pytest.param(
            served("filter", "preempt", "bind"), {"preemptVerb": "preempt", "bindVerb": "bind"}, id="the other verbs"
        ),
        pytest.param(served("filter", node_cache_capable=True), {"nodeCacheCapable": True}, id="names"),
        pytest.param(served("filter", ignorable=True), {"ignorable": True}, id="it may be ignored"),
        pytest.param(served("filter", http_timeout="2s"), {"httpTimeout": "2s"}, id="its time"),
        pytest.param(
            served("filter", managed_resources=("a.b/c",)),
            {"managedResources": [{"name": "a.b/c"}]},
            id="its resources",
        ),
        pytest.param(
            served("filter", managed_resources=("a.b/c",), ignored_by_scheduler=True),
            {"managedResources": [{"name": "a.b/c", "ignoredByScheduler": True}]},
            id="resources that the scheduler leaves to it",
        ),
    ],
)
def test_entries_say_what_differs_from_the_default(made: Served, want: dict[str, Any]) -> None:
    assert entry_for(made, "http://e/") == {**BASE, **want}
    loaded = load_document(configuration_for(made, "http://e/")).config.extenders[0]
    assert loaded.url_prefix == "http://e" and loaded.filter_verb == "filter"


@pytest.mark.parametrize(
    ("files", "want"),
    [
        pytest.param({}, {"enableHTTPS": True}, id="no files"),
        pytest.param({"ca_file": "ca"}, {"enableHTTPS": True, "tlsConfig": {"caFile": "ca"}}, id="a CA"),
        pytest.param(
            {"ca_file": "ca", "cert_file": "c", "key_file": "k"},
            {"enableHTTPS": True, "tlsConfig": {"caFile": "ca", "certFile": "c", "keyFile": "k"}},
            id="a certificate, too",
        ),
    ],
)
def test_https(files: dict[str, str], want: dict[str, Any]) -> None:
    assert entry_for(served("filter"), "https://e", **files) == {**BASE, "urlPrefix": "https://e", **want}
