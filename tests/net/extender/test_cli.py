"""The command line: serve, config and check, with real processes and with mistakes."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from scripted_server import Script, serving

from mooring.api.errors import UsageError
from mooring.cli.extender import extender
from mooring.core.config.load import load_document
from mooring.net.extender.conformance import make_node

EXT = """
from mooring.net.extender.sdk import Node, Pod, refuse

name = "ssd"
weight = 3
ignorable = True
http_timeout = "2s"
managed_resources = ["example.com/disk"]

def filter(pod: Pod, node: Node):
    if node.labels.get("disk") != "ssd":
        return refuse("no ssd")

def prioritize(pod: Pod, node: Node) -> int:
    return 5
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(extender, arguments, standalone_mode=False)


@pytest.fixture
def ext(tmp_path: Path) -> str:
    path = tmp_path / "my_ext.py"
    path.write_text(EXT)
    return str(path)


def test_the_configuration_says_what_the_extender_says_and_is_valid(ext: str) -> None:
    result = run("config", ext, "--url", "https://ext.example:8443/", "--ca-file", "/etc/ca.pem", "-o", "json")
    value = json.loads(result.output)
    (entry,) = value["extenders"]
    assert entry == {
        "urlPrefix": "https://ext.example:8443",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 3,
        "enableHTTPS": True,
        "tlsConfig": {"caFile": "/etc/ca.pem"},
        "ignorable": True,
        "httpTimeout": "2s",
        "managedResources": [{"name": "example.com/disk"}],
    }
    assert load_document(value).config.extenders[0].weight == 3
    assert json.loads(run("config", ext, "--entry-only", "-o", "json").output)[0]["weight"] == 3


def test_a_scheduler_that_shows_a_certificate(ext: str) -> None:
    files = ["--ca-file", "ca.pem", "--cert-file", "tls.crt", "--key-file", "tls.key"]
    (entry,) = json.loads(run("config", ext, "--url", "https://e", *files, "--entry-only", "-o", "json").output)
    assert entry["tlsConfig"] == {"caFile": "ca.pem", "certFile": "tls.crt", "keyFile": "tls.key"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--url", "https://e", "--cert-file", "a"], "go together", id="a certificate without a key"),
        pytest.param(["--ca-file", "a"], "expected https://…", id="a CA where nothing is encrypted"),
        pytest.param(["--url", "e:1"], "expected http://… or https://…", id="no URL"),
    ],
)
def test_options_that_do_not_fit_together(ext: str, options: list[str], said: str) -> None:
    result = run("config", ext, *options)
    assert isinstance(result.exception, UsageError) and said in str(result.exception)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(None, "there is no file", id="no file"),
        pytest.param("x = 1", "defines none of filter, prioritize, preempt, bind", id="no verb"),
        pytest.param(
            "from __future__ import annotations\ndef filter(pod, node: Nodee): ...",
            "its type hints cannot be read",
            id="an unknown type",
        ),
        pytest.param("def filter(:", "line 1: invalid syntax", id="not Python"),
        pytest.param("import nonesuch_module", "line 1: ModuleNotFoundError", id="a module that is not there"),
        pytest.param("def filter(x): ...", "should be (pod, node) or (pod, nodes)", id="other parameters"),
    ],
)
def test_files_that_are_no_extender(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "bad.py"
    if text is not None:
        path.write_text(text)
    result = run("config", str(path))
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception) and "\n" not in str(result.exception)


def test_a_plugin_that_watches_needs_names_only() -> None:
    plugin = str(Path(__file__).parents[3] / "examples" / "03-extenders" / "quiet_nodes.py")
    for options in ([], ["--watch"]):
        (entry,) = json.loads(run("config", "--plugin", plugin, "--entry-only", "-o", "json", *options).output)
        assert entry.get("nodeCacheCapable", False) is bool(options)


def test_an_extender_in_a_file_watches_nothing(ext: str) -> None:
    result = run("serve", ext, "--watch")
    assert isinstance(result.exception, UsageError) and "--watch is for a --plugin" in str(result.exception)


def test_neither_a_file_nor_a_plugin() -> None:
    assert isinstance(run("config").exception, UsageError)


@pytest.fixture
def served(ext: str) -> Iterator[str]:
    command = [sys.executable, "-m", "mooring", "extender", "serve", ext, "--port", "0", "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        ready, _, _ = select.select([process.stderr], [], [], 30)
        line = process.stderr.readline() if ready else ""
        assert "filter, prioritize at http://127.0.0.1:" in line, line
        yield line.split(" at ")[1].split()[0]
    finally:
        process.terminate()
        assert process.wait(300) == 0, "it ends cleanly"
        process.stderr.close()


@pytest.mark.e2e
def test_a_served_extender_passes_the_kit(served: str) -> None:
    result = run("check", served, "--nodes", "300", "--calls", "3", "-o", "json")
    report = json.loads(result.output)
    assert result.return_value == 0, report
    assert report["passed"] and len(report["checks"]) > 15
    assert {row["verb"] for row in report["latencies"]} == {"filter", "prioritize"}
    assert any("recorded request" in check["name"] for check in report["checks"])


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param({"raw": "oops"}, "invalid character 'o' looking for beginning of value", id="not JSON"),
        pytest.param({"status": 500, "raw": "{}"}, "status 500", id="an error status"),
        pytest.param({"body": {"NodeNames": ["node-00000"]}}, "NodeNames only", id="names where nodes were sent"),
        pytest.param({"body": {"Error": "unhappy"}}, "Error: unhappy", id="an error"),
        pytest.param({"body": {"Nodes": {"items": [make_node(99_999)]}}}, "was not offered", id="a stranger"),
    ],
)
def test_the_kit_finds_what_is_wrong(answer: dict[str, object], problem: str) -> None:
    with serving(Script()) as script:
        script.say("/filter", answer)
        url = f"http://127.0.0.1:{script.port}"
        result = run("check", url, "--prioritize-verb", "", "--nodes", "20", "--calls", "1", "--concurrency", "1")
    assert result.return_value == 1
    assert "FAIL  filter three nodes" in result.output and problem in result.output


def test_the_kit_warns_of_what_is_legal_but_surely_not_meant() -> None:
    with serving(Script()) as script:
        script.say("/prioritize", {"body": [{"host": "node-00000", "Score": 99}]})
        url = f"http://127.0.0.1:{script.port}"
        result = run("check", url, "--filter-verb", "", "--nodes", "20", "--calls", "1", "--concurrency", "1")
    assert "'Host' is its name" in result.output
    assert "scores go from 0 to 10" in result.output
    assert "get no score" in result.output


def test_nothing_listens_at_the_address() -> None:
    result = run("check", "http://127.0.0.1:1")
    assert result.return_value == 1 and "connection refused" in result.output
