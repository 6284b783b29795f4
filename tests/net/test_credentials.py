"""Credentials of requests: fixed headers, token files that change, exec plugins."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.api import yaml
from mooring.api.clock import VirtualClock
from mooring.api.errors import InputError
from mooring.net.credentials import (
    ExecCredentials,
    StaticCredentials,
    TokenFileCredentials,
    basic,
    bearer,
    has_control_characters,
)
from mooring.net.kubeconfig import load_kubeconfig


@pytest.mark.parametrize(
    ("credentials", "header"),
    [
        pytest.param(StaticCredentials(), None, id="anonymous"),
        pytest.param(bearer("abc"), "Bearer abc", id="a token"),
        pytest.param(basic("me", "pass:word"), "Basic bWU6cGFzczp3b3Jk", id="a user and a password"),
        pytest.param(basic("zoë", ""), "Basic em/Dqzo=", id="a user beyond ASCII"),
    ],
)
async def test_what_never_changes(credentials, header):
    await credentials.refresh()
    assert (credentials.authorization, credentials.is_fresh(), credentials.certificate) == (header, True, None)
    assert not credentials.invalidate(), "asking again cannot give anything new"
    assert header is None or header.split()[1] not in repr(credentials)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("eyJhbGciOi.x-_~", False, id="a token"),
        pytest.param("名", False, id="letters beyond ASCII"),
        pytest.param("a\nb", True, id="a line's end"),
        pytest.param("a\0", True, id="a null byte"),
        pytest.param("\x7f", True, id="delete"),
    ],
)
def test_control_characters(text, want):
    assert has_control_characters(text) is want


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"a\nb", "more than one line", id="two lines"),
        pytest.param(b"\xff", "can't decode", id="no text"),
    ],
)
def test_a_bad_token_file_is_one_clear_line_or_keeps_the_old_token(tmp_path, content, words):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(InputError, match=words):
        TokenFileCredentials(str(file)).read()
    credentials = TokenFileCredentials(str(file), fallback="old")
    credentials.read()
    assert credentials.authorization == "Bearer old"


async def test_a_token_file_is_read_again_after_a_minute_and_after_a_401(tmp_path):
    clock = VirtualClock()
    file = tmp_path / "token"
    file.write_text("one")
    credentials = TokenFileCredentials(str(file), clock=clock)
    await credentials.refresh()
    assert credentials.authorization == "Bearer one"
    file.write_text("two")
    assert credentials.is_fresh()
    clock.advance(61)
    assert not credentials.is_fresh()
    await credentials.refresh()
    assert credentials.authorization == "Bearer two"
    file.write_text("three")
    assert credentials.invalidate()
    await credentials.refresh()
    assert credentials.authorization == "Bearer three"
    file.unlink()
    credentials.invalidate()
    await credentials.refresh()
    assert credentials.authorization == "Bearer three", "a file that is gone for a moment keeps the old token"


PLUGIN = """#!{python}
import json, os, pathlib
runs = pathlib.Path({count!r})
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
pathlib.Path({seen!r}).write_text(os.environ["KUBERNETES_EXEC_INFO"])
print(json.dumps({answer}))
"""


def write(folder: Path, user: dict[str, Any]) -> str:
    """A kubeconfig with this user."""
    document = {
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
    }
    (folder / "config").write_text(yaml.dump(document))
    return str(folder / "config")


def exec_config(folder: Path, answer: dict[str, Any], **section: Any) -> ExecCredentials:
    program = folder / "plugin"
    program.write_text(
        PLUGIN.format(python=sys.executable, count=str(folder / "runs"), seen=str(folder / "seen"), answer=answer)
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    user = {
        "exec": {
            "command": "./plugin",
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
            "provideClusterInfo": True,
            "env": [{"name": "FLAVOUR", "value": "sweet"}],
            **section,
        }
    }
    config = load_kubeconfig([write(folder, user)], environ={"PATH": os.environ["PATH"]})
    assert isinstance(config.credentials, ExecCredentials)
    return config.credentials


def credential(status: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "status": status}


async def test_an_exec_plugin_is_run_once_and_again_after_a_401(tmp_path):
    credentials = exec_config(tmp_path, credential({"token": "fresh"}))
    assert not credentials.is_fresh()
    await credentials.refresh()
    await credentials.refresh()
    assert credentials.authorization == "Bearer fresh"
    assert (tmp_path / "runs").read_text() == "x"
    info = json.loads((tmp_path / "seen").read_text())
    assert info["kind"] == "ExecCredential"
    assert info["spec"] == {"interactive": False, "cluster": {"server": "https://api.example:6443"}}
    assert credentials.invalidate()
    await credentials.refresh()
    assert (tmp_path / "runs").read_text() == "xx"


async def test_an_expired_exec_credential_is_not_fresh(tmp_path):
    credentials = exec_config(tmp_path, credential({"token": "old", "expirationTimestamp": "2001-01-01T00:00:00Z"}))
    await credentials.refresh()
    assert not credentials.is_fresh()


async def test_an_exec_plugin_can_give_a_client_certificate(tmp_path, authority):
    client = authority.issue("exec-client")
    status = {"clientCertificateData": client.certificate.decode(), "clientKeyData": client.key.decode()}
    credentials = exec_config(tmp_path, credential(status))
    await credentials.refresh()
    assert credentials.certificate is not None
    assert credentials.certificate.certificate == client.certificate
    assert "PRIVATE" not in repr(credentials.certificate)


@pytest.mark.parametrize(
    ("answer", "section", "words"),
    [
        pytest.param(credential({"token": "x"}, "v1beta1"), {}, "the kubeconfig asks for", id="another version"),
        pytest.param(credential({}), {}, "neither a token nor a client certificate", id="nothing in it"),
        pytest.param(credential({"clientCertificateData": "x"}), {}, "only one of", id="certificate without key"),
        pytest.param(credential({"token": "x", "expirationTimestamp": "soon"}), {}, "not an RFC 3339", id="bad expiry"),
        pytest.param([], {}, "is not an ExecCredential", id="not an object"),
        pytest.param({}, {"command": "no-such-program-here", "installHint": "get it"}, "; get it", id="not installed"),
        pytest.param({}, {"command": "false"}, "failed with status 1", id="a failing program"),
        pytest.param(credential({"token": "a\nb"}), {}, "a token of more than one line", id="a token of two lines"),
        pytest.param({}, {"env": [{"name": "A", "value": "\0"}]}, "cannot run", id="what no environment can hold"),
    ],
)
async def test_a_bad_exec_plugin_gets_one_clear_line(tmp_path, answer, section, words):
    credentials = exec_config(tmp_path, answer, **section)
    with pytest.raises(InputError) as caught:
        await credentials.refresh()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
