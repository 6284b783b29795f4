"""Certificates that sign themselves, and files that are replaced."""

from __future__ import annotations

import contextlib
import os
import ssl
import sys
import tempfile
from pathlib import Path

import pytest
from cryptography import x509

from mooring.net.tls import file_stamp, load_identity, self_signed, self_signed_elsewhere

ONE, OTHER = self_signed("localhost", "127.0.0.1", "::1"), self_signed("example.com", common_name="me")


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Shake hands in memory; raise what the client finds."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(6):
        for side in (asking, serving):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()


@pytest.mark.parametrize(
    ("host", "is_trusted"),
    [
        pytest.param("localhost", True, id="a name of it"),
        pytest.param("127.0.0.1", True, id="an address of it"),
        pytest.param("::1", True, id="an address of the newer kind"),
        pytest.param("example.com", False, id="another name"),
    ],
)
def test_a_client_that_trusts_it_reaches_the_hosts_it_names(host: str, is_trusted: bool) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_identity(server, *ONE)
    client = ssl.create_default_context(cadata=ONE.certificate.decode())
    if is_trusted:
        handshake(server, client, host)
    else:
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(server, client, host)


def test_other_clients_do_not_trust_it() -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_identity(server, *ONE)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, ssl.create_default_context(cadata=OTHER.certificate.decode()), "localhost")


@pytest.mark.parametrize(
    "executable", [sys.executable, "nowhere", "false"], ids=["by Python", "without Python", "by a program that fails"]
)
def test_one_that_another_process_makes(executable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    made = self_signed_elsewhere("localhost", "127.0.0.1")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_identity(server, *made)
    handshake(server, ssl.create_default_context(cadata=made.certificate.decode()), "127.0.0.1")
    made_here = x509.load_pem_x509_certificate(made.certificate).subject.rfc4514_string().endswith(f"@{os.getpid()}")
    assert made_here == (executable in ("nowhere", "false")), "or the package would be loaded here"


def test_what_it_is_called() -> None:
    names = [x509.load_pem_x509_certificate(made.certificate).subject.rfc4514_string() for made in (ONE, OTHER)]
    assert names == [f"CN=localhost@{os.getpid()}", "CN=me"]


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        pytest.param(ONE.certificate, OTHER.key, id="a key of another certificate"),
        pytest.param(b"hello", ONE.key, id="no certificate"),
        pytest.param(ONE.certificate, b"", id="no key"),
    ],
)
def test_what_does_not_fit_together_is_refused(certificate: bytes, key: bytes) -> None:
    with pytest.raises(ssl.SSLError):
        load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)


def test_a_key_is_on_disk_only_while_it_is_loaded_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes: list[int] = []

    class Context:
        def load_cert_chain(self, path: str) -> None:
            modes.append(os.stat(path).st_mode & 0o777)

    load_identity(Context(), *ONE)  # type: ignore[arg-type]
    assert modes == [0o600] and not list(tmp_path.iterdir())


def test_a_stamp_changes_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert file_stamp(str(path)) is file_stamp("") is None
    path.write_text("one")
    first = file_stamp(str(path))
    assert first == file_stamp(str(path)) is not None
    (tmp_path / "b").write_text("two")
    os.replace(tmp_path / "b", path)
    assert file_stamp(str(path)) not in (first, None)
