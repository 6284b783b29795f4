"""The well-known sample extender: a node takes a pod if it is lucky, and luck is also the score.

Chance is drawn from the pod's and the node's names, so that asking again gives
the same answer: a scheduler may ask more than once.
"""

from __future__ import annotations

import random

from mooring.net.extender.sdk import MAX_SCORE, Node, Pod, refuse


def filter(pod: Pod, node: Node):
    if not dice(pod, node).randrange(2):
        return refuse("Well, you're not lucky")


def prioritize(pod: Pod, node: Node) -> int:
    return dice(pod, node).randint(0, MAX_SCORE)


def dice(pod: Pod, node: Node) -> random.Random:
    return random.Random(f"{pod.uid}/{node.name}")
