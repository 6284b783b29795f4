"""Certificates: making one that signs itself, loading one from memory, and noticing that a file was replaced."""

from __future__ import annotations

import ipaddress
import os
import ssl
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509

_ALREADY_VALID_FOR = timedelta(hours=1)  # for clients whose clocks are slow
_VALID_FOR = timedelta(days=365)
_MAKING_S = 60.0


class Identity(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


def self_signed(*hosts: str, common_name: str = "") -> Identity:
    """Make a certificate for these host names and addresses, good for a year, that is its own authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name or f"{hosts[0]}@{os.getpid()}")])
    names = [_general_name(host) for host in dict.fromkeys(hosts)]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _ALREADY_VALID_FOR)
        .not_valid_after(now + _VALID_FOR)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def self_signed_elsewhere(*hosts: str) -> Identity:
    """The same by a process of its own: the package that makes certificates would take 12 MiB here for good.

    The key comes through a pipe. Where no process can be started, it is made here.
    """
    command = [
        sys.executable,
        "-P",
        "-m",
        "mooring.net.tls",
        *hosts,
    ]  # -P: nothing is imported from the working directory
    try:
        made = subprocess.run(command, capture_output=True, timeout=_MAKING_S, check=True)
        certificate, key = made.stdout.split(b"\0")
    except (OSError, ValueError, subprocess.SubprocessError):
        return self_signed(*hosts)
    return Identity(certificate, key)


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key from memory. Raise ssl.SSLError if they are not PEM or do not fit together.

    The ssl module reads them from files only. This file is private, and lives for the length of the call.
    """
    with tempfile.NamedTemporaryFile(prefix="mooring-", suffix=".pem") as file:
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def file_stamp(path: str) -> tuple[int, int, int] | None:
    """A value that changes when the file is written or replaced; None: there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


if __name__ == "__main__":
    sys.stdout.buffer.write(b"\0".join(self_signed(*sys.argv[1:])))
