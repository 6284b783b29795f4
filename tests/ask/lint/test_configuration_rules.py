"""Settings of a scheduler configuration that change nothing on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.ask.lint.lint import lint
from mooring.core.cluster import Cluster
from mooring.testing import make_node, make_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
PACK = """- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
NOTHING_ELSE_SCORES = """  plugins:
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: 1}]}
"""
ALONE = "- plugins: {score: {enabled: [{name: ImageLocality, weight: 1}]}}\n"


def cluster() -> Cluster:
    """Two nodes, one of them half full. A pod that prefers the other one outvotes every strategy."""
    want = {"preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}, "weight": 100}
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [want]}}}
    anchor = {"nodeSelector": {"kubernetes.io/hostname": "b"}}
    return Cluster(
        make_node("a", cpu=4, labels={"disk": "ssd"}),
        make_node("b", cpu=4),
        make_pod("anchor", node="b", cpu=2, spec=anchor),
        make_pod("web", cpu=1, spec=spec),
    )


@pytest.mark.parametrize(
    ("configuration", "want"),
    [
        pytest.param(PACK, [("strategy-outvoted", 6)], id="an affinity outvotes packing"),
        pytest.param(PACK + NOTHING_ELSE_SCORES, [], id="without other scores, packing decides"),
        pytest.param(ALONE, [("score-never-matters", 4)], id="no image is on any node"),
        pytest.param(
            "- schedulerName: default-scheduler\n- schedulerName: gpu\n", [("profile-unused", 5)], id="unused"
        ),
        pytest.param("- schedulerName: default-scheduler\n", [], id="nothing to say"),
        pytest.param("- schedulerName: [1]\n", None, id="not a configuration"),
    ],
)
def test_settings_that_change_nothing(configuration: str, want: list[tuple[str, int]] | None, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEAD + configuration)
    found = [(each.rule, each.line) for each in lint(file, cluster=cluster())]
    assert want is None or found == want
