"""Go's words for failures of a connection. They end up in pods' events, and people search for them."""

from __future__ import annotations

import ssl

NO_HEADERS = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
NO_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"

_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}  # OpenSSL's codes: issuer not found, self-signed, and their kin
_VALIDITY = {9, 10}
_NAMES = {62, 63, 64}


def errno_text(error: OSError) -> str:
    """What the system said, as Go writes it."""
    return (error.strerror or str(error)).lower()


def tls_text(error: Exception, host: str) -> str:
    """Go's words for what OpenSSL found, or for how else a connection ended."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_certificate_text(error, host)}"
    if isinstance(error, ssl.SSLEOFError):
        return "EOF"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
            return "http: server gave HTTP response to HTTPS client"
        if reason.startswith(("TLSV1_ALERT_", "TLSV13_ALERT_", "SSLV3_ALERT_")):
            text = reason.split("ALERT_", 1)[1].replace("_", " ").lower()
            return f"remote error: tls: {text}"
        return f"tls: {reason.replace('_', ' ').lower() or error}"
    if isinstance(error, ConnectionResetError):
        return "read tcp: read: connection reset by peer"
    return str(error)


def _certificate_text(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if error.verify_code in _VALIDITY:
        return "certificate has expired or is not yet valid"
    if error.verify_code in _NAMES:
        return f"certificate is not valid for {host}"
    return error.verify_message
