"""How a server is verified, and which certificate is shown: contexts, and what they are made of."""

from __future__ import annotations

import ssl

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.errors import InputError
from mooring.net.tls import FILES_PERIOD_S, Identity, TlsSettings


@pytest.mark.parametrize(
    ("settings", "mode", "checks_names"),
    [
        pytest.param({}, ssl.CERT_REQUIRED, True, id="the authorities of this machine"),
        pytest.param({"insecure": True}, ssl.CERT_NONE, False, id="no verification"),
    ],
)
def test_who_is_verified(settings, mode, checks_names):
    context = TlsSettings(**settings).context()
    assert (context.verify_mode, context.check_hostname) == (mode, checks_names)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_an_authority_from_data_or_from_a_file(authority):
    for settings in (TlsSettings(ca_data=authority.pem), TlsSettings(ca_file=authority.file)):
        assert settings.context().cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "no PEM certificate in it", id="empty"),
        pytest.param(b"half a certificate", "no PEM certificate in it", id="no PEM"),
        pytest.param(b"\xff", "no PEM certificate in it", id="no text"),
        pytest.param(None, "cannot read the certificate authority: No such file", id="no file"),
    ],
)
def test_a_bad_authority_is_one_clear_line(tmp_path, content, words):
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        TlsSettings(ca_file=str(file)).context()
    assert str(caught.value).startswith(f"{file}: {words}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("which", ["from data", "from files", "from a plugin"])
def test_an_identity(authority, which):
    issued = authority.issue("someone")
    certificate = Identity(issued.certificate, issued.key)
    match which:
        case "from data":
            settings, override = TlsSettings(certificate=certificate), None
        case "from files":
            settings = TlsSettings(certificate_file=issued.certificate_file, key_file=issued.key_file)
            override = None
        case _:
            settings, override = TlsSettings(), certificate
    context = settings.context(override)
    assert settings.context(override) is context, "kept while nothing changes"
    if override is not None:
        assert settings.context() is not context, "a plugin that gives another certificate is heeded"


def test_an_identity_whose_parts_do_not_fit_is_one_clear_line(authority):
    one, other = authority.issue("one"), authority.issue("other")
    settings = TlsSettings(certificate=Identity(one.certificate, other.key))
    with pytest.raises(
        InputError, match="client-certificate-data: cannot use the client certificate: certificate and key"
    ):
        settings.context()
    settings = TlsSettings(certificate_file=one.certificate_file, key_file="/nowhere")
    with pytest.raises(InputError, match=r"^/nowhere: cannot use the client certificate: No such file"):
        settings.context()


def test_a_file_that_is_replaced_makes_a_new_context(tmp_path, authority, other_authority):
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.pem)
    clock = VirtualClock()
    settings = TlsSettings(ca_file=str(file), clock=clock)
    before = settings.context()
    file.write_bytes(other_authority.pem + authority.pem)
    assert settings.context() is before, "files are looked at once a second"
    clock.advance(FILES_PERIOD_S)
    after = settings.context()
    assert after is not before
    clock.advance(FILES_PERIOD_S)
    assert settings.context() is after


def test_files_that_do_not_fit_yet_leave_the_last_ones_in_use(tmp_path, authority, caplog):
    """A certificate and its key are replaced one after the other."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    one, other = authority.issue("one"), authority.issue("other")
    certificate.write_bytes(one.certificate)
    key.write_bytes(one.key)
    clock = VirtualClock()
    settings = TlsSettings(certificate_file=str(certificate), key_file=str(key), clock=clock)
    before = settings.context()
    certificate.write_bytes(other.certificate)
    for _ in range(3):
        clock.advance(FILES_PERIOD_S)
        assert settings.context() is before
    assert [record.getMessage() for record in caplog.records] == [
        f"{certificate}: cannot use the client certificate: certificate and key do not fit together or are not PEM; "
        "what was read before stays in use"
    ]
    key.write_bytes(other.key)
    clock.advance(FILES_PERIOD_S)
    assert settings.context() is not before


def test_a_plugins_new_certificate_is_used_immediately(authority):
    settings = TlsSettings(ca_data=authority.pem)
    one, other = authority.issue("one"), authority.issue("other")
    before = settings.context(Identity(one.certificate, one.key))
    assert settings.context(Identity(other.certificate, other.key)) is not before


def test_nothing_of_a_key_is_shown(authority):
    issued = authority.issue("quiet")
    settings = TlsSettings(certificate=Identity(issued.certificate, issued.key))
    assert "PRIVATE" not in repr(settings)
