"""Kubeconfig files: what is read from them, what is refused and in which words."""

from __future__ import annotations

import base64
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from mooring.api import yaml
from mooring.api.errors import InputError, UsageError
from mooring.net import tls as tls_settings
from mooring.net.kubeconfig import (
    MAX_FILE_BYTES,
    ClientConfig,
    find_config,
    in_cluster_config,
    load_kubeconfig,
    scheduler_config,
)

CHAIN = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 1500))
BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], k{i}: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 30)
)


def kubeconfig(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        **top,
    }


def write(folder: Path, document: object, name: str = "config") -> str:
    path = folder / name
    path.write_text(document if isinstance(document, str) else yaml.dump(document))
    return str(path)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_context_resolves_to_server_user_and_namespace(tmp_path):
    config = load_kubeconfig([write(tmp_path, kubeconfig(user={"token": "s3cret"}))], environ={})
    assert config.server == "https://api.example:6443"
    assert config.credentials.authorization == "Bearer s3cret"
    assert config.namespace == "team"
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    ("user", "want"),
    [
        pytest.param({"token": "abc"}, "Bearer abc", id="a token"),
        pytest.param({"username": "me", "password": "pw"}, "Basic " + b64(b"me:pw"), id="basic auth"),
        pytest.param({}, None, id="anonymous"),
    ],
)
def test_authorization_agrees_with_the_official_client(tmp_path, user, want):
    path = write(tmp_path, kubeconfig(user=user))
    ours = load_kubeconfig([path], environ={}).credentials.authorization
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kubernetes import client as official
        from kubernetes import config as official_config

        configuration = official.Configuration()
        official_config.load_kube_config(config_file=path, client_configuration=configuration)
    assert ours == want
    assert configuration.api_key.get("BearerToken") == want
    assert configuration.host == "https://api.example:6443"


def test_certificates_from_data_and_from_files_are_loaded(tmp_path, authority):
    client = authority.issue("client")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    by_file = kubeconfig(
        {"certificate-authority": "ca.crt"},
        {"client-certificate": client.certificate_file, "client-key": client.key_file},
    )
    by_data = kubeconfig(
        {"certificate-authority-data": b64(authority.pem), "tls-server-name": "api.example"},
        {"client-certificate-data": b64(client.certificate), "client-key-data": b64(client.key)},
    )
    for document in (by_file, by_data):
        config = load_kubeconfig([write(tmp_path, document)], environ={})
        stats = config.tls.context().cert_store_stats()
        assert stats["x509_ca"] == 1
    assert config.tls.server_name == "api.example"


def test_a_replaced_certificate_file_makes_a_new_context(tmp_path, authority, monkeypatch):
    monkeypatch.setattr(tls_settings, "FILES_PERIOD_S", 0.0)
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    config = load_kubeconfig([write(tmp_path, kubeconfig({"certificate-authority": "ca.crt"}))], environ={})
    before = config.tls.context()
    assert config.tls.context() is before
    (tmp_path / "ca.crt").write_bytes(authority.pem + authority.pem)
    assert config.tls.context() is not before


def test_several_files_are_merged_and_the_first_wins(tmp_path):
    first = kubeconfig(user={"token": "first"})
    del first["clusters"]
    second = kubeconfig({"server": "https://second.example"}, {"token": "second"}, **{"current-context": "other"})
    paths = [write(tmp_path, first, "a"), str(tmp_path / "missing"), write(tmp_path, second, "b")]
    config = find_config(environ={"KUBECONFIG": os.pathsep.join(paths)})
    assert config.server == "https://second.example"
    assert config.credentials.authorization == "Bearer first"


def test_home_is_looked_at_when_nothing_is_named(tmp_path):
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", kubeconfig(user={"token": "home"}))
    assert find_config(environ={"HOME": str(tmp_path)}).credentials.authorization == "Bearer home"


def test_master_overrides_the_server(tmp_path):
    path = write(tmp_path, kubeconfig(user={"token": "abc"}))
    config = scheduler_config(path, master="http://127.0.0.1:8001/", environ={})
    assert config.server == "http://127.0.0.1:8001"
    assert config.credentials.authorization == "Bearer abc"
    assert scheduler_config(master="127.0.0.1:8080", environ={}).server == "http://127.0.0.1:8080"


def test_impersonation_becomes_headers(tmp_path):
    user = {"token": "t", "as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"scope": ["x"], "a/b": ["é"]}}
    config = load_kubeconfig([write(tmp_path, kubeconfig(user=user))], environ={})
    assert config.extra_headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-a%2Fb", "é"),
        ("Impersonate-Extra-scope", "x"),
    )


@pytest.mark.parametrize(
    ("document", "words"),
    [
        pytest.param("a: [", "line 2, column 1: not valid YAML", id="broken yaml"),
        pytest.param("[" * 50_000, "line 1, column 201: nested too deeply", id="nothing but brackets"),
        pytest.param(CHAIN, "line 200, column 14: nested too deeply", id="aliases in a chain"),
        pytest.param(BOMB, "aliases make this document too large", id="a merge that doubles"),
        pytest.param("a: 1\n---\nb: 2\n", "line 3: a second document starts here", id="two documents"),
        pytest.param("#" * (MAX_FILE_BYTES + 1), "more than 16 MiB", id="a huge file"),
        pytest.param("- 1", "a kubeconfig is a mapping", id="a list"),
        pytest.param({"kind": "Pod", "apiVersion": "v1"}, "found v1 Pod", id="another kind"),
        pytest.param({"clusters": 3}, "clusters: Expected `array", id="clusters is a number"),
        pytest.param(kubeconfig(**{"current-context": ""}), "no current-context; name one of main", id="no current"),
        pytest.param("", "no current-context; and no contexts to name one of", id="an empty file"),
        pytest.param(
            kubeconfig(**{"current-context": "x"}), "no context named 'x'; there are main", id="unknown context"
        ),
        pytest.param(kubeconfig(clusters=[]), "no cluster named 'c'; there are none", id="unknown cluster"),
        pytest.param(kubeconfig(users=[]), "no user named 'u'; there are none", id="unknown user"),
        pytest.param(kubeconfig({"server": ""}), "no server", id="no server"),
        pytest.param(kubeconfig({"server": "ftp://x"}), "it should be a URL", id="server of another scheme"),
        pytest.param(
            kubeconfig({"server": "https://me:s3cret@x"}),
            "https://me:***@x': credentials belong",
            id="credentials in the server",
        ),
        pytest.param(kubeconfig({"server": "https://x:abc"}), "server 'https://x:abc'", id="server with a bad port"),
        pytest.param(
            kubeconfig({"certificate-authority-data": "%%"}),
            "certificate-authority-data: not base64",
            id="CA not base64",
        ),
        pytest.param(
            kubeconfig({"certificate-authority-data": b64(b"nonsense")}), "no PEM certificate in it", id="CA not PEM"
        ),
        pytest.param(kubeconfig({"certificate-authority": "nowhere.crt"}), "No such file", id="CA file missing"),
        pytest.param(
            kubeconfig({"insecure-skip-tls-verify": True, "certificate-authority": "x"}),
            "one of them must go",
            id="insecure and CA",
        ),
        pytest.param(kubeconfig({"server": "https://a b"}), "server 'https://a b'", id="server with a space"),
        pytest.param(
            kubeconfig({"server": f"https://{'a' * 64}.x"}), "should be a URL", id="server of too long a name"
        ),
        pytest.param(kubeconfig({"server": "https://x/\n"}), "server: a control character", id="server of two lines"),
        pytest.param(kubeconfig({"tls-server-name": "a b"}), "tls-server-name 'a b'", id="no host's name"),
        pytest.param(kubeconfig({"certificate-authority": "a\0b"}), "certificate-authority: a control", id="null byte"),
        pytest.param(kubeconfig({"proxy-url": "socks5://x:1"}), "only http:// and https://", id="socks proxy"),
        pytest.param(kubeconfig({"proxy-url": "http://["}), "proxy-url 'http://['", id="a proxy that is no URL"),
        pytest.param(kubeconfig(user={"token": "a\nb"}), "token: a control character", id="token of two lines"),
        pytest.param(
            kubeconfig(user={"as": "x", "as-groups": ["a", "b\r"]}), "as-groups: a control", id="group of two lines"
        ),
        pytest.param(kubeconfig(user={"client-certificate": "x"}), "client-key is missing", id="certificate alone"),
        pytest.param(
            kubeconfig(user={"client-certificate-data": b64(b"x"), "client-key-data": b64(b"y")}),
            "do not fit together or are not PEM",
            id="certificate not PEM",
        ),
        pytest.param(
            kubeconfig(user={"token": 17}), "users[0].user.token: Expected `str`, got `int`", id="numeric token"
        ),
        pytest.param(kubeconfig(user={"tokenFile": "nowhere"}), "token file", id="token file missing"),
        pytest.param(
            kubeconfig(user={"token": "x", "username": "me"}),
            "more than one authentication method",
            id="two identities",
        ),
        pytest.param(kubeconfig(user={"auth-provider": {"name": "gcp"}}), "auth-provider 'gcp'", id="auth provider"),
        pytest.param(
            kubeconfig(user={"exec": {"apiVersion": "x"}}), "exec.command: missing", id="exec without command"
        ),
        pytest.param(
            kubeconfig(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
            "exec.apiVersion: 'client.authentication.k8s.io/v1alpha1'",
            id="exec of an old version",
        ),
        pytest.param(
            kubeconfig(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
            "interactiveMode: missing",
            id="exec without a mode",
        ),
        pytest.param(kubeconfig(user={"as-groups": ["g"]}), "impersonation needs a user", id="groups without a user"),
    ],
)
def test_a_bad_file_gets_one_clear_line(tmp_path, document, words):
    path = write(tmp_path, document)
    with pytest.raises(InputError) as caught:
        load_kubeconfig([path], environ={})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        pytest.param("socks5://me:s3cret@x:1", "'socks5://me:***@x:1': only http:// and https://", id="socks proxy"),
        pytest.param("http://[", "HTTPS_PROXY 'http://['", id="no URL"),
    ],
)
def test_a_bad_proxy_in_the_environment_is_one_clear_line(tmp_path, proxy, words):
    environ = {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy}
    for path, master in ((write(tmp_path, kubeconfig()), ""), ("", "api.example")):
        with pytest.raises(InputError) as caught:
            scheduler_config(path, master=master, environ=environ)
        assert words in str(caught.value)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"kubeconfig .*absent: No such file"):
        load_kubeconfig([str(tmp_path / "absent")], environ={})
    with pytest.raises(UsageError, match="none of the files exists"):
        find_config(environ={"KUBECONFIG": str(tmp_path / "absent")})
    with pytest.raises(UsageError, match="no cluster configured"):
        find_config(environ={"HOME": str(tmp_path)})


def test_in_cluster_configuration(tmp_path, authority):
    (tmp_path / "token").write_text("inside\n")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "namespace").write_text("kube-system")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = find_config(environ=environ, service_account=str(tmp_path))
    assert config.server == "https://[fd00::1]:443"
    assert config.credentials.authorization == "Bearer inside"
    assert config.namespace == "kube-system"
    with pytest.raises(UsageError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster_config(environ={}, service_account=str(tmp_path))


def test_a_configuration_does_not_show_the_password_of_its_proxy():
    assert "s3cret" not in repr(ClientConfig(server="https://x", proxy_url="http://me:s3cret@y:1"))
