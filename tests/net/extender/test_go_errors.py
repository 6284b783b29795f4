"""Go's words for failures."""

from __future__ import annotations

import ssl

import pytest

from mooring.net.extender.http_client import errno_text, tls_text


def verification(code: int, message: str = "as OpenSSL says") -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    return error


def tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "something went wrong")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(verification(19), "certificate signed by unknown authority", id="a self-signed certificate"),
        pytest.param(verification(20), "certificate signed by unknown authority", id="an unknown issuer"),
        pytest.param(verification(10), "certificate has expired or is not yet valid", id="an old certificate"),
        pytest.param(verification(9), "certificate has expired or is not yet valid", id="a new certificate"),
        pytest.param(verification(62), "certificate is not valid for host", id="another name"),
        pytest.param(verification(64), "certificate is not valid for host", id="another address"),
        pytest.param(verification(99), "as OpenSSL says", id="anything else"),
    ],
)
def test_certificates(error: ssl.SSLError, said: str) -> None:
    assert tls_text(error, "host") == f"tls: failed to verify certificate: x509: {said}"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            tls("WRONG_VERSION_NUMBER"), "http: server gave HTTP response to HTTPS client", id="a server without TLS"
        ),
        pytest.param(
            tls("TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "remote error: tls: certificate required",
            id="it wants a certificate",
        ),
        pytest.param(tls("TLSV1_ALERT_UNKNOWN_CA"), "remote error: tls: unknown ca", id="it does not trust ours"),
        pytest.param(tls("SSLV3_ALERT_BAD_CERTIFICATE"), "remote error: tls: bad certificate", id="it dislikes ours"),
        pytest.param(tls("NO_SHARED_CIPHER"), "tls: no shared cipher", id="no common language"),
        pytest.param(tls(""), "tls: something went wrong", id="no reason given"),
        pytest.param(ssl.SSLEOFError(8, "EOF occurred"), "EOF", id="it hangs up"),
        pytest.param(ConnectionResetError(104, "x"), "read tcp: read: connection reset by peer", id="it resets"),
        pytest.param(ValueError("what it was"), "what it was", id="what Go has no words for"),
    ],
)
def test_connections(error: Exception, said: str) -> None:
    assert tls_text(error, "host") == said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(OSError(111, "Connection refused"), "connection refused", id="with the system's words"),
        pytest.param(OSError("Odd"), "odd", id="without them"),
    ],
)
def test_errnos(error: OSError, said: str) -> None:
    assert errno_text(error) == said
