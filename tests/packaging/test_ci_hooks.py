"""The GitHub Action and the hooks of pre-commit do what the page about them says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("pre_commit")

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
GOOD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  containers:
  - {name: web, image: app, resources: {requests: {cpu: 100m, memory: 64Mi}}}
"""
BAD = GOOD.replace("spec:", "spec:\n  nodeSelectr: {disk: ssd}")
STORY = """
title: A small cluster
steps:
- nodes: {count: 1, cpu: "4"}
- apply: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: web, image: app}]}}
- expect: {pod: web, node: WANTED, within: 5s}
"""


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PRE_COMMIT_HOME": str(folder / "cache"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }


def ran(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env={**environment(folder), **more}, check=False, capture_output=True, text=True
    )


# ---- pre-commit ------------------------------------------------------------------------------------------------------


def hooks() -> dict[str, dict[str, Any]]:
    return {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


def test_pre_commit_accepts_the_hooks(tmp_path: Path) -> None:
    done = ran([str(BIN / "pre-commit"), "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")], tmp_path)
    assert done.returncode == 0, done.stdout


def commit(folder: Path, hook: dict[str, Any], files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Let pre-commit run a hook on files in a repository, with the mooring of these tests instead of an own one."""
    local = {**hook, "language": "system"}
    config = {"repos": [{"repo": "local", "hooks": [local]}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for command in (["git", "init", "-q"], ["git", "add", "-A"]):
        assert ran(command, folder).returncode == 0
    return ran([str(BIN / "pre-commit"), "run", "--all-files"], folder)


@pytest.mark.parametrize(("manifest", "code"), [pytest.param(GOOD, 0, id="good"), pytest.param(BAD, 1, id="bad")])
def test_the_hook_looks_at_manifests(tmp_path: Path, manifest: str, code: int) -> None:
    done = commit(tmp_path, hooks()["mooring-lint"], {"manifests/web.yaml": manifest, "notes.txt": "no manifest"})
    assert done.returncode == code, done.stdout + done.stderr
    assert "web.yaml" in done.stdout or not code


@pytest.mark.parametrize(
    ("wanted", "code"), [pytest.param("node1", 0, id="they hold"), pytest.param("node9", 1, id="they do not")]
)
def test_the_hook_holds_stories_to_their_expectations(tmp_path: Path, wanted: str, code: int) -> None:
    hook = {**hooks()["mooring-simulate"], "files": "^stories/"}
    done = commit(tmp_path, hook, {"stories/small.yaml": STORY.replace("WANTED", wanted), "other.yaml": "a: 1"})
    assert done.returncode == code, done.stdout + done.stderr


# ---- the action ------------------------------------------------------------------------------------------------------


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return found


def act(folder: Path, step: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as GitHub does: bash, with its inputs in the environment."""
    inputs = {name: str(value["default"]) for name, value in action()["inputs"].items()} | {
        name.replace("_", "-"): value for name, value in given.items()
    }
    (found,) = (each for each in action()["runs"]["steps"] if each.get("name") == step)
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: inputs[match[1]], text)
        for name, text in found["env"].items()
    }
    return ran(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", found["run"]], folder, **variables)


def test_the_action_is_complete() -> None:
    found = action()
    assert found["runs"]["using"] == "composite" and all(value["description"] for value in found["inputs"].values())
    for step in found["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), "inputs come as variables"
        for text in (*step.get("env", {}).values(), step.get("if", "")):
            assert set(re.findall(r"inputs\.([\w-]+)", text)) <= found["inputs"].keys()


@pytest.mark.parametrize(("manifest", "code"), [pytest.param(GOOD, 0, id="good"), pytest.param(BAD, 1, id="bad")])
def test_the_action_looks_at_manifests(tmp_path: Path, manifest: str, code: int) -> None:
    (tmp_path / "a b.yaml").write_text(manifest)
    done = act(tmp_path, "mooring lint", manifests="a b.yaml\n\n", sarif="found.sarif")
    assert done.returncode == code, done.stdout + done.stderr
    assert yaml.safe_load((tmp_path / "found.sarif").read_text())["version"] == "2.1.0"


@pytest.mark.parametrize(
    ("wanted", "code"), [pytest.param("node1", 0, id="they hold"), pytest.param("node9", 1, id="they do not")]
)
def test_the_action_holds_stories_to_their_expectations(tmp_path: Path, wanted: str, code: int) -> None:
    (tmp_path / "small.yaml").write_text(STORY.replace("WANTED", wanted))
    done = act(tmp_path, "mooring simulate", stories="small.yaml")
    assert done.returncode == code, done.stdout + done.stderr
