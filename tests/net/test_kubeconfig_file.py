"""Kubeconfig files as they stand: types, merging, and texts that no entry can use."""

from __future__ import annotations

import pytest

from mooring.api.errors import InputError, UsageError
from mooring.net.kubeconfig import KubeconfigCluster, KubeconfigFiles, KubeconfigUser, check_texts


def add(files: KubeconfigFiles, folder, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    files.add(str(path))
    return str(path)


def test_the_first_file_that_names_an_entry_wins(tmp_path):
    files = KubeconfigFiles()
    first = add(
        files, tmp_path, "first", "clusters: [{name: c, cluster: {server: one}}]\nusers: [{name: u, user: {token: t}}]"
    )
    second = add(
        files,
        tmp_path,
        "second",
        "current-context: x\nclusters: [{name: c, cluster: {server: two}}, {name: d}]\n"
        "contexts: [{name: x, context: {cluster: d, user: u, namespace: s}}]",
    )
    add(files, tmp_path, "third", "current-context: other\n")
    assert (files.clusters["c"][0].server, files.clusters["c"][1]) == ("one", first)
    assert files.clusters["d"] == (KubeconfigCluster(), second), "each entry comes with the file it stands in"
    assert files.users["u"][0].token == "t"
    assert files.current_context == "x"
    assert files.contexts["x"][0].namespace == "s"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("# nothing", id="only a comment"),
        pytest.param("apiVersion: v1\nkind: Config\n", id="nothing but its kind"),
        pytest.param("clusters: null\nusers: null\ncontexts: null\n", id="nulls"),
        pytest.param("preferences: {}\nextensions: []\nfuture: 3\n", id="fields that are not read"),
        pytest.param('{"clusters": []}', id="JSON"),
    ],
)
def test_files_without_entries(tmp_path, text):
    files = KubeconfigFiles()
    add(files, tmp_path, "config", text)
    assert files == KubeconfigFiles()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("users: [{user: {}}]", "users[0]: Object missing required field `name`", id="no name"),
        pytest.param("users: {}", "users: Expected `array", id="an object where a list belongs"),
        pytest.param("users: [{name: u, user: {token: yes}}]", "users[0].user.token: Expected `str`", id="a boolean"),
        pytest.param("kind: Config\napiVersion: v2", "found v2 Config", id="another version"),
        pytest.param("3", "found a int; a kubeconfig is a mapping of kind Config", id="a number"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path, text, words):
    with pytest.raises(InputError) as caught:
        add(KubeconfigFiles(), tmp_path, "config", text)
    assert str(caught.value).startswith(f"kubeconfig {tmp_path}/config: {words}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["absent", "."], ids=["no file", "a directory"])
def test_a_file_that_cannot_be_read(tmp_path, name):
    with pytest.raises(UsageError, match=r"^kubeconfig .*: (No such file|Is a directory)"):
        KubeconfigFiles().add(str(tmp_path / name))


@pytest.mark.parametrize(
    ("section", "field"),
    [
        pytest.param(KubeconfigCluster(server="https://h\r\nX: y"), "server", id="a server"),
        pytest.param(KubeconfigCluster(proxy_url="http://h\n"), "proxy-url", id="a proxy"),
        pytest.param(KubeconfigCluster(certificate_authority="a\0b"), "certificate-authority", id="a file's name"),
        pytest.param(KubeconfigUser(token="a\nb"), "token", id="a token"),
        pytest.param(KubeconfigUser(token_file="a\0"), "tokenFile", id="a token's file"),
        pytest.param(KubeconfigUser(as_user="a\x7f"), "as", id="a user"),
        pytest.param(KubeconfigUser(as_groups=["a", "b\n"]), "as-groups", id="a group"),
        pytest.param(KubeconfigUser(as_user_extra={"k\n": []}), "as-user-extra", id="an extra's name"),
        pytest.param(KubeconfigUser(as_user_extra={"k": ["v\n"]}), "as-user-extra", id="an extra's value"),
    ],
)
def test_a_control_character_is_one_clear_line(section, field):
    with pytest.raises(InputError) as caught:
        check_texts(section, "user 'u'")
    assert str(caught.value) == f"user 'u': {field}: a control character in it; it should be one line of text"


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(KubeconfigCluster(certificate_authority_data="YQ==\n"), id="base64 of several lines"),
        pytest.param(KubeconfigUser(password="a\tb"), id="a password"),
        pytest.param(KubeconfigCluster(extensions=[{"name": "a\n"}]), id="extensions"),
        pytest.param(KubeconfigUser(as_user="zoë-名"), id="letters beyond ASCII"),
    ],
)
def test_what_may_have_them_or_has_none(section):
    check_texts(section, "x")
