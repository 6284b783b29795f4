"""Lists and watches: what their parameters mean, and pages that belong together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.groups import core as events
from mooring.controlplane.registry.groups.core import EVENTS
from mooring.controlplane.serving import listing
from mooring.controlplane.serving.requests import Route
from mooring.controlplane.storage.store import Store
from mooring.controlplane.types.status import StatusError

ROUTE = Route(PODS, "default")


def pod(name: str, node: str = "", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"nodeName": node} if node else {}}


@pytest.fixture
def store() -> Store:
    store = Store(history=100)
    for name in "abcde":
        store.create(PODS, pod(name, node="n" if name in "bd" else "", app="web" if name in "abc" else "db"))
    return store


def listed(store: Store, route: Route = ROUTE, **parameters: str) -> tuple[list[str], dict[str, Any]]:
    chosen = listing.selection(route, parameters)
    page = chosen.page(store)
    body = json.loads(listing.list_body(route.kind, page, chosen))
    assert (body["kind"], body["apiVersion"]) == (f"{route.kind.kind}List", route.kind.api_version)
    return [item["metadata"]["name"] for item in body["items"]], body["metadata"]


@pytest.mark.parametrize(
    ("parameters", "want"),
    [
        pytest.param({}, "abcde", id="all"),
        pytest.param({"labelSelector": "app=web"}, "abc", id="by label"),
        pytest.param({"fieldSelector": "metadata.name=b"}, "b", id="by name"),
        pytest.param({"fieldSelector": "metadata.name=x"}, "", id="by a name that is not there"),
        pytest.param({"fieldSelector": "metadata.name=d", "labelSelector": "app=web"}, "", id="by name and label"),
        pytest.param({"fieldSelector": "spec.nodeName=n"}, "bd", id="by node"),
        pytest.param({"fieldSelector": "spec.nodeName=n", "labelSelector": "app=web"}, "b", id="by node and label"),
        pytest.param({"fieldSelector": "spec.nodeName="}, "ace", id="without a node"),
        pytest.param({"fieldSelector": "spec.nodeName!=n"}, "ace", id="not on a node"),
        pytest.param({"resourceVersion": "0"}, "abcde", id="any version"),
        pytest.param({"resourceVersion": "1"}, "abcde", id="not older than"),
        pytest.param({"resourceVersion": "3", "resourceVersionMatch": "Exact"}, "ab", id="exactly then"),
        pytest.param({"limit": "2"}, "ab", id="the first two"),
        pytest.param({"limit": "2", "labelSelector": "app=db"}, "de", id="the first two of some"),
    ],
)
def test_lists(store: Store, parameters: dict[str, str], want: str) -> None:
    assert listed(store, **parameters)[0] == list(want)


def test_a_named_route_lists_one_object(store: Store) -> None:
    assert listed(store, Route(PODS, "default", "c"))[0] == ["c"]


def test_pages_are_of_one_moment_and_end(store: Store) -> None:
    first, metadata = listed(store, limit="2")
    assert (first, metadata["remainingItemCount"]) == (["a", "b"], 3)
    rv = metadata["resourceVersion"]
    entry = store.get(PODS, "default", "c")
    assert entry is not None
    store.delete(PODS, entry)
    store.create(PODS, pod("bb"))
    second, metadata = listed(store, limit="2", **{"continue": metadata["continue"]})
    assert (second, metadata["resourceVersion"]) == (["c", "d"], rv)
    last, metadata = listed(store, limit="2", **{"continue": metadata["continue"]})
    assert (last, "continue" in metadata) == (["e"], False)


def test_pages_of_a_selection_do_not_say_how_many_are_left(store: Store) -> None:
    _, metadata = listed(store, limit="1", labelSelector="app=web")
    assert "continue" in metadata and "remainingItemCount" not in metadata


def test_a_page_whose_moment_is_forgotten_is_gone(store: Store) -> None:
    _, metadata = listed(store, limit="2")
    for i in range(200):
        store.create(PODS, pod(f"new-{i}"))
    with pytest.raises(StatusError) as refused:
        listed(store, limit="2", **{"continue": metadata["continue"]})
    assert refused.value.code == 410


@pytest.mark.parametrize(
    ("parameters", "code", "want"),
    [
        pytest.param({"limit": "x"}, 400, "limit: expected a number", id="a limit"),
        pytest.param({"limit": "9" * 19}, 400, "limit: expected a number", id="a long limit"),
        pytest.param({"resourceVersion": "x"}, 422, "invalid syntax", id="a version"),
        pytest.param({"resourceVersion": "999999"}, 504, "Too large resource version", id="a version of the future"),
        pytest.param({"resourceVersionMatch": "Maybe"}, 422, "Unsupported value", id="a match"),
        pytest.param({"resourceVersionMatch": "Exact"}, 422, "is forbidden", id="exactly nothing"),
        pytest.param({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, "is forbidden", id="exactly any"),
        pytest.param({"continue": "x"}, 400, "continue key is not valid", id="a token"),
        pytest.param({"continue": "é"}, 400, "continue key is not valid", id="a token that is not ASCII"),
        pytest.param(
            {"continue": "eyJ2IjoidjkiLCJydiI6MSwic3RhcnQiOiIifQ"}, 400, "does not recognize", id="a version of it"
        ),
        pytest.param(
            {"continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIifQ", "resourceVersion": "5"},
            400,
            "not allowed when using continue",
            id="a token and a version",
        ),
        pytest.param({"fieldSelector": "spec.x=1"}, 400, "is not a known field selector", id="a field"),
    ],
)
def test_lists_that_are_refused(store: Store, parameters: dict[str, str], code: int, want: str) -> None:
    with pytest.raises(StatusError, match=want) as refused:
        listed(store, **parameters)
    assert refused.value.code == code


def test_metadata_alone(store: Store) -> None:
    chosen = listing.selection(ROUTE, {"limit": "1"})
    body = json.loads(listing.list_body(PODS, chosen.page(store), chosen, "partial"))
    assert body["kind"] == "PartialObjectMetadataList"
    assert body["items"][0].keys() == {"kind", "apiVersion", "metadata"}


def test_a_view_is_listed_in_its_own_form() -> None:
    store = Store()
    store.create(EVENTS, {"metadata": {"name": "e", "namespace": "default"}, "message": "m", "involvedObject": {}})
    chosen = listing.selection(Route(events.GROUPED_EVENTS, "default"), {})
    body = json.loads(listing.list_body(events.GROUPED_EVENTS, chosen.page(store), chosen))
    assert (body["apiVersion"], body["items"][0]["note"]) == ("events.k8s.io/v1", "m")


INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize(
    ("parameters", "since", "initial_end", "bookmarks"),
    [
        pytest.param({}, None, False, False, id="the present state first"),
        pytest.param({"resourceVersion": "0"}, None, False, False, id="any state first"),
        pytest.param({"resourceVersion": "5"}, 5, False, False, id="from a version on"),
        pytest.param({"allowWatchBookmarks": "true"}, None, False, True, id="with bookmarks"),
        pytest.param({**INITIAL, "allowWatchBookmarks": "1"}, None, True, True, id="a list that becomes a watch"),
        pytest.param(INITIAL, None, False, False, id="a list that becomes a watch, without bookmarks"),
        pytest.param({**INITIAL, "sendInitialEvents": "false"}, -1, False, False, id="from now on"),
        pytest.param(
            {**INITIAL, "sendInitialEvents": "false", "resourceVersion": "5"}, 5, False, False, id="from then on"
        ),
    ],
)
def test_watches(parameters: dict[str, str], since: int | None, initial_end: bool, bookmarks: bool) -> None:
    options = listing.watch_options(parameters)
    assert (options.since, options.wants_initial_end, options.bookmarks) == (since, initial_end, bookmarks)
    assert options.timeout_s == listing.DEFAULT_WATCH_S


def test_how_long_a_watch_lasts() -> None:
    assert listing.watch_options({"timeoutSeconds": "7"}).timeout_s == 7.0


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        pytest.param({"continue": "x"}, 400, id="a page of a watch"),
        pytest.param({"sendInitialEvents": "true"}, 422, id="initial events without a match"),
        pytest.param({"resourceVersionMatch": "NotOlderThan"}, 422, id="a match without initial events"),
        pytest.param({"timeoutSeconds": "-1"}, 400, id="a time before now"),
        pytest.param({"resourceVersion": "x"}, 422, id="a version"),
    ],
)
def test_watches_that_are_refused(parameters: dict[str, str], code: int) -> None:
    with pytest.raises(StatusError) as refused:
        listing.watch_options(parameters)
    assert refused.value.code == code
