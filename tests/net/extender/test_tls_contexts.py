"""TLS of both sides: what an entry's settings mean, and which files a server can use."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import ConfigError, UsageError
from mooring.core.config.types import Extender, ExtenderTLSConfig
from mooring.net.extender.http_client import server_context, tls_context
from mooring.net.tls import self_signed

ONE, OTHER = self_signed("localhost"), self_signed("localhost")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, data in (("cert", ONE.certificate), ("key", ONE.key), ("other-key", OTHER.key), ("text", b"hello")):
        (tmp_path / name).write_bytes(data)


@pytest.mark.parametrize(
    ("https", "tls", "verifies"),
    [
        pytest.param(False, None, None, id="nothing is said: the system's certificates"),
        pytest.param(True, None, False, id="HTTPS without a CA trusts anybody, as upstream"),
        pytest.param(True, {"ca_data": ONE.certificate}, True, id="HTTPS with a CA"),
        pytest.param(False, {"ca_file": "cert"}, True, id="a CA in a file"),
        pytest.param(False, {"insecure": True}, False, id="insecure"),
        pytest.param(False, {"cert_file": "cert", "key_file": "key"}, True, id="only a certificate to show"),
        pytest.param(True, {"cert_data": ONE.certificate}, False, id="a certificate without a key is not shown"),
    ],
)
def test_who_is_trusted(https: bool, tls: dict[str, Any] | None, verifies: bool | None) -> None:
    made = tls_context(Extender(enable_https=https, tls_config=ExtenderTLSConfig(**tls) if tls is not None else None))
    if verifies is None:
        assert made is None
    else:
        assert made is not None and made.check_hostname is verifies
        assert (made.verify_mode is ssl.CERT_REQUIRED) is verifies


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        pytest.param(
            {"insecure": True, "ca_file": "cert"},
            "specifying a root certificates file with the insecure flag is not allowed",
            id="a CA that would not be looked at",
        ),
        pytest.param(
            {"ca_file": "nowhere/ca"}, "tlsConfig.caFile: open nowhere/ca: no such file or directory", id="no CA file"
        ),
        pytest.param(
            {"ca_file": "text"},
            "unable to load root certificates: tlsConfig.caFile text has no certificate in PEM form",
            id="a CA file without a certificate",
        ),
        pytest.param(
            {"ca_data": b"\xff"},
            "unable to load root certificates: tlsConfig.caData has no certificate in PEM form",
            id="data without a certificate",
        ),
        pytest.param(
            {"insecure": True, "cert_file": "gone", "key_file": "key"},
            "tlsConfig.certFile: open gone: no such file or directory",
            id="no certificate file",
        ),
        pytest.param(
            {"insecure": True, "cert_data": ONE.certificate, "key_data": OTHER.key},
            "tlsConfig: certificate and key do not fit together or are not PEM",
            id="a key of another certificate",
        ),
    ],
)
def test_settings_that_cannot_be_used(tls: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tls_context(Extender(tls_config=ExtenderTLSConfig(**tls)))
    assert str(caught.value) == said


@pytest.mark.parametrize(("client_ca", "mode"), [("", ssl.CERT_NONE), ("cert", ssl.CERT_REQUIRED)])
def test_a_server_asks_for_certificates_if_it_has_a_ca_for_them(client_ca: str, mode: ssl.VerifyMode) -> None:
    made = server_context("cert", "key", client_ca)
    assert made.verify_mode is mode and made.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(("cert", "", ""), "--tls-private-key-file go together", id="no key"),
        pytest.param(("", "key", ""), "go together", id="no certificate"),
        pytest.param(("", "", "cert"), "go together", id="a CA alone"),
        pytest.param(("gone", "key", ""), "--tls-cert-file gone: no such file or directory", id="no such file"),
        pytest.param(("text", "text", ""), "--tls-cert-file text: certificate and key do not fit", id="not PEM"),
        pytest.param(("cert", "other-key", ""), "do not fit together", id="a key of another certificate"),
        pytest.param(("cert", "key", "text"), "--client-ca-file text: no certificates in PEM form", id="no CA"),
        pytest.param(("cert", "key", "gone"), "--client-ca-file gone: no certificates", id="no CA file"),
    ],
)
def test_files_that_a_server_cannot_use(given: tuple[str, str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        server_context(*given)
    assert said in str(caught.value)
