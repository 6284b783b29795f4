"""A record as columns: pods count where the scheduler counts them, at every moment."""

from __future__ import annotations

from collections import defaultdict

import pytest

from mooring.record import entries
from mooring.show.timeline import OUTCOMES, PLACES, EventKind, PageTimeline, Role
from mooring.testing import make_pod


def rows(timeline: PageTimeline) -> list[tuple[EventKind, str, str, int]]:
    """Events as kind, pod, node, aux."""
    events = timeline.events.columns
    names, pods = timeline.pod_names.values, timeline.pods.columns["name"]
    return [
        (
            EventKind(kind),
            names[pods[pod]] if pod >= 0 else "",
            timeline.nodes.values[node] if node >= 0 else "",
            aux,
        )
        for kind, pod, node, aux in zip(events["kind"], events["pod"], events["node"], events["aux"], strict=True)
    ]


def test_the_first_placement_is_in_order(story):
    timeline = story("first-placement").timeline
    about_pod = [(kind, node, aux) for kind, pod, node, aux in rows(timeline) if pod == "default/pod1"]
    attempts = [OUTCOMES[aux & 7] for kind, _, aux in about_pod if kind is EventKind.ATTEMPT]
    places = [PLACES[aux] for kind, _, aux in about_pod if kind is EventKind.PLACE]
    assert attempts == ["unschedulable", "scheduled"]
    assert places == ["active", "unschedulable", "backoff"]
    assert [node for kind, node, _ in about_pod if kind in (EventKind.ON, EventKind.BOUND)] == ["node10", "node10"]
    assert len({node for kind, _, node, _ in rows(timeline) if kind is EventKind.NODE}) == 10


@pytest.mark.parametrize("name", ["first-placement", "preemption", "zone-spread", "node-failure", "gang"])
def test_pods_count_where_the_record_says_at_every_attempt(story, name):
    shown = story(name)
    counted: dict[str, set[str]] = defaultdict(set)
    for event, (kind, pod, node, _) in enumerate(rows(shown.timeline)):
        if kind is EventKind.ATTEMPT:
            cluster = shown.moment(event)().state
            expected = {
                each: {info.pod.key for info in node_info.pods.values()}
                for each, node_info in cluster.table.nodes.items()
                if node_info.pods
            }
            assert {each: pods for each, pods in counted.items() if pods} == expected
        elif kind is EventKind.ON:
            counted[node].add(pod)
        elif kind is EventKind.OFF:
            counted[node].discard(pod)


def test_an_eviction_names_the_pod_that_needs_the_room(story):
    timeline = story("preemption").timeline
    events = timeline.events.columns
    at = events["kind"].index(EventKind.EVICTED)
    assert timeline.texts.values[events["text"][at]] == "default/important"


def test_an_event_that_is_no_attempt_is_refused(story):
    from mooring.api.errors import InputError

    with pytest.raises(InputError, match="event 0 is not an attempt"):
        story("preemption").timeline.attempt_number(0)


@pytest.mark.parametrize("name", ["first-placement", "preemption", "zone-spread", "taints"])
def test_every_attempt_is_explained_as_it_was_decided(story, name):
    shown = story(name)
    for event, (kind, pod, node, aux) in enumerate(rows(shown.timeline)):
        if kind is not EventKind.ATTEMPT:
            continue
        told = shown.why(shown.moment(event)())
        assert (told["pod"], told["outcome"], told["again"]) == (pod, OUTCOMES[aux & 7], "")
        refused = [row for step in told["funnel"] for row in step["rows"]]
        assert len(refused) + told["nodes"]["feasible"] == told["nodes"]["evaluated"]
        if told["outcome"] == "scheduled":
            assert shown.timeline.nodes.values[told["node"]] == node


def test_pods_of_one_template_share_the_shape_of_their_containers():
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    spec = {
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
        "initContainers": [{"name": "prepare"}, sidecar],
    }
    timeline = PageTimeline(0.0)
    for pod in (make_pod("a", spec=spec), make_pod("b", spec=spec), make_pod("c", cpu="2")):
        timeline.take(1.0, entries.Put(pod))
    assert list(timeline.pods.columns["shape"]) == [0, 0, 1]
    texts, resources = timeline.texts.values, [*timeline.resources.values, ""]
    found = [
        (shape, at, texts[name], Role(role), resources[resource], amount)
        for shape, at, name, role, resource, amount in zip(*timeline.containers.columns.values(), strict=True)
    ]
    assert found == [
        (0, 0, "app", Role.CONTAINER, "cpu", 2_000),
        (0, 0, "app", Role.CONTAINER, "memory", 2**30),
        (0, 1, "prepare", Role.INIT, "", 0),
        (0, 2, "proxy", Role.SIDECAR, "cpu", 100),
        (1, 0, "main", Role.CONTAINER, "cpu", 2_000),
    ]
