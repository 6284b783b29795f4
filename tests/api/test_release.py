"""Releases of Kubernetes."""

from __future__ import annotations

import pytest

from mooring.api.manifests import parse_manifests
from mooring.api.version import UNKNOWN, Release, release_of

NODES = """
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {nodeInfo: {kubeletVersion: v1.35.2}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b}, status: {nodeInfo: {kubeletVersion: v1.37.0-gke.4}}}
---
{apiVersion: v1, kind: Node, metadata: {name: c}, status: {nodeInfo: {kubeletVersion: 9}}}
"""
SERVER = """
clientVersion: {major: "1", minor: "33", gitVersion: v1.33.0}
serverVersion: {major: "1", minor: "36+", gitVersion: v1.36.1-eks-1}
"""


@pytest.mark.parametrize(
    ("version", "release"),
    [("v1.36.4", (1, 36)), ("1.37", (1, 37)), ("v1.37.0-rc.1", (1, 37)), ("", UNKNOWN), ("new", UNKNOWN), (7, UNKNOWN)],
)
def test_release_of(version: object, release: Release) -> None:
    assert release_of(version) == release


@pytest.mark.parametrize(
    ("text", "release"),
    [
        pytest.param("{apiVersion: v1, kind: Node, metadata: {name: a}}", UNKNOWN, id="nothing says it"),
        pytest.param(NODES, (1, 37), id="no kubelet is newer than its API server"),
        pytest.param(f"{NODES}---{SERVER}", (1, 36), id="what kubectl version says counts"),
    ],
)
def test_what_a_dump_says(text: str, release: Release) -> None:
    assert parse_manifests(text, "dump").release == release
