"""Ask another service before placing a pod: only nodes with a free licence take pods that need one.

The service is asked once per pod, with all node names together, and its
answers are kept for a few seconds. When it does not answer, the pod fails with
that text and is tried again: better than a licence too many. It is called at
LICENCE_URL with ``{"product": …, "nodes": […]}`` and answers with the number of
free licences by node.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request

from mooring.net.extender.sdk import Extender, Filtered, Pod

LABEL = "example.com/product"
KEEP_S = 5.0
TIMEOUT_S = 2.0


class Licences(Extender):
    """Names are all it needs, so that schedulers need not send whole nodes (nodeCacheCapable)."""

    name = "licences"
    http_timeout = "3s"

    def __init__(self) -> None:
        self.url = os.environ.get("LICENCE_URL", "http://127.0.0.1:9000/free")
        self._kept: dict[str, tuple[float, dict[str, int]]] = {}

    def filter(self, pod: Pod, nodes: list[str]) -> Filtered | list[str]:
        product = pod.labels.get(LABEL)
        if product is None:
            return nodes
        free = self.free(product, nodes)
        keep = [node for node in nodes if free.get(node, 0) > 0]
        reason = f"no free licence for {product}"
        return Filtered(keep, {node: reason for node in nodes if free.get(node, 0) <= 0})

    def prioritize(self, pod: Pod, nodes: list[str]) -> dict[str, int]:
        product = pod.labels.get(LABEL)
        if product is None:
            return {}
        free = self.free(product, nodes)
        return {node: min(10, free.get(node, 0)) for node in nodes}

    def free(self, product: str, nodes: list[str]) -> dict[str, int]:
        """Free licences by node, not older than KEEP_S."""
        asked_at, known = self._kept.get(product, (0.0, {}))
        if time.monotonic() - asked_at > KEEP_S or not known.keys() >= set(nodes):
            body = json.dumps({"product": product, "nodes": nodes}).encode()
            request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                known = dict.fromkeys(nodes, 0) | json.load(answer)
            self._kept[product] = time.monotonic(), known
        return known
