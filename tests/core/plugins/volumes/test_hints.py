"""Hints that several volume plugins give."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.framework.cluster_event import Hint
from mooring.core.plugins.volumes.claims import after_claim, after_named_claim

EPHEMERAL = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


@pytest.mark.parametrize(
    ("name", "of_any", "of_named"),
    [
        pytest.param("c", Hint.QUEUE, Hint.QUEUE, id="a claim that the pod names"),
        pytest.param("pod-scratch", Hint.QUEUE, Hint.SKIP, id="the claim of an ephemeral volume"),
        pytest.param("other", Hint.SKIP, Hint.SKIP, id="another claim"),
    ],
)
def test_which_claims_bring_a_pod_back(world: Any, name: str, of_any: Hint, of_named: Hint) -> None:
    pod, claim = world.pod("c", volumes=[EPHEMERAL]), world.claim(name)
    assert (after_claim(pod, None, claim), after_named_claim(pod, None, claim)) == (of_any, of_named)


def test_what_is_no_claim_is_worth_a_try(world: Any) -> None:
    assert after_claim(world.pod("c"), None, None) is after_named_claim(world.pod("c"), None, None) is Hint.QUEUE
