"""The last instant alone says what the whole record says of it."""

from __future__ import annotations

from collections import Counter

import pytest

from mooring.show.shown import head_of
from mooring.show.timeline import PLACES, EventKind, PageTimeline


def instant(timeline: PageTimeline) -> tuple[dict[str, dict[str, float]], dict[str, str], dict[str, tuple[int, int]]]:
    """What is used of each node, the labels of each node, and where each waiting pod is after how many attempts."""
    used: dict[str, Counter[str]] = {}
    labels: dict[str, str] = {}
    waiting: dict[str, tuple[int, int]] = {}
    tries: Counter[int] = Counter()
    asks: dict[int, dict[str, float]] = {}
    resources, nodes, texts = timeline.resources.values, timeline.nodes.values, timeline.texts.values
    for pod, resource, amount in zip(*timeline.requests.columns.values(), strict=True):
        asks.setdefault(pod, {})[resources[resource]] = amount
    tags = {}
    for version, key, value in zip(*timeline.labels.columns.values(), strict=True):
        tags[version] = tags.get(version, "") + f"{texts[key]}={texts[value]} "
    for _, kind, pod, node, aux, _, _ in zip(*timeline.events.columns.values(), strict=True):
        name = timeline.pod_names.values[timeline.pods.columns["name"][pod]] if pod >= 0 else ""
        match kind:
            case EventKind.NODE:
                used.setdefault(nodes[node], Counter())
                labels[nodes[node]] = tags.get(aux, "")
            case EventKind.NODE_GONE:
                del used[nodes[node]], labels[nodes[node]]
            case EventKind.ON | EventKind.OFF if nodes[node] in used:
                sign = 1 if kind == EventKind.ON else -1
                for resource, amount in (asks.get(pod, {}) | {"pods": asks.get(pod, {}).get("pods", 0) + 1}).items():
                    used[nodes[node]][resource] += sign * amount
                waiting.pop(name, None)
            case EventKind.ATTEMPT:
                tries[pod] = aux >> 3
                waiting[name] = (PLACES.index("in-flight"), tries[pod])
            case EventKind.PLACE:
                waiting[name] = (aux & 7, tries[pod])
            case EventKind.POD_GONE:
                waiting.pop(name, None)
    shown = {node: {name: amount for name, amount in each.items() if amount} for node, each in used.items()}
    return shown, labels, {name: each for name, each in waiting.items() if each[0] < PLACES.index("in-flight")}


@pytest.mark.parametrize("name", ["first-placement", "preemption", "zone-spread", "node-failure", "gang"])
def test_the_head_says_what_the_record_says_of_its_last_instant(story, name):
    timeline = story(name).timeline
    head = head_of(timeline)
    whole, small = instant(timeline), instant(head.timeline)
    assert small == whole
    assert head.timeline.nodes.values == timeline.nodes.values
    assert head.running == sum(int(each.get("pods", 0)) for each in whole[0].values())
    for place, count in enumerate(head.waiting[:5]):
        assert count == sum(each[0] == place for each in whole[2].values())
    assert head.timeline.events.columns["time"][-1] == timeline.now


def test_an_empty_record_has_an_empty_head():
    head = head_of(PageTimeline(0.0))
    assert (head.running, head.waiting) == (0, [0] * len(PLACES))
