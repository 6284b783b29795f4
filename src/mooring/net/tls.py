"""TLS: verification of a server, client certificates, self-signed certificates, and files that are replaced."""

from __future__ import annotations

import ipaddress
import logging
import os
import ssl
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mooring.api.clock import Clock, SystemClock
from mooring.api.errors import InputError

if TYPE_CHECKING:
    from cryptography import x509

log = logging.getLogger("mooring.net.tls")

_ALREADY_VALID_FOR = timedelta(hours=1)  # for clients whose clocks are slow
_VALID_FOR = timedelta(days=365)
_MAKING_S = 60.0


class Identity(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Identity(…)"  # the key is a secret


def self_signed(*hosts: str, common_name: str = "") -> Identity:
    """Make a self-signed certificate for these host names and addresses, valid for a year."""
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
    """Make one in another process, because the package for certificates would keep 12 MiB here.

    The key comes through a pipe. Where no process can be started, it is made in this one.
    """
    # -P: nothing is imported from the working directory.
    command = [sys.executable, "-P", "-m", "mooring.net.tls", *hosts]
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
    """Load a certificate and its key from memory. Raise ssl.SSLError if they are not PEM or do not match.

    The ssl module reads them from files only. The file is private, and exists for the length of the call.
    """
    with tempfile.NamedTemporaryFile(prefix="mooring-", suffix=".pem") as file:
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def file_stamp(path: str) -> tuple[int, int, int] | None:
    """Return a value that changes when the file is written or replaced; None if there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


FILES_PERIOD_S = 1.0
"""How often files are checked: a check takes three system calls, and every write asks for the context."""


@dataclass(slots=True)
class TlsSettings:
    """Server verification and client certificate; contexts follow files that are replaced."""

    ca_data: bytes | None = None
    ca_file: str = ""
    insecure: bool = False
    server_name: str = ""
    certificate: Identity | None = None
    certificate_file: str = ""
    key_file: str = ""
    protocols: tuple[str, ...] = ("http/1.1",)  # that the server may choose from
    _context: ssl.SSLContext | None = field(default=None, repr=False)
    clock: Clock = field(default_factory=SystemClock, repr=False)
    _made_from: object = field(default=None, repr=False)
    _override: Identity | None = field(default=None, repr=False)
    _looked_at: float = field(default=float("-inf"), repr=False)
    _trouble: str = field(default="", repr=False)  # problem with replaced files

    def for_protocols(self, *protocols: str) -> TlsSettings:
        """Return the same settings with other protocols for the server to choose from, the best first."""
        return replace(self, protocols=protocols, _context=None, _looked_at=float("-inf"))

    def context(self, override: Identity | None = None) -> ssl.SSLContext:
        """Return the context for a new connection, rebuilt when a file or the plugin's certificate has changed.

        A changed file is noticed within a second. While new files are unusable the last context stays: a certificate
        and its key are two files, and one of them is written first.
        """
        now = self.clock.monotonic()
        if self._context is not None and override is self._override and now - self._looked_at < FILES_PERIOD_S:
            return self._context
        made_from = (override, file_stamp(self.ca_file), file_stamp(self.certificate_file), file_stamp(self.key_file))
        if self._context is None or made_from != self._made_from:
            try:
                self._context, self._made_from = self._make(override), made_from
            except InputError as error:
                if self._context is None:
                    raise
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    log.warning("%s; what was read before stays in use", error)
            else:
                self._trouble = ""
        self._override, self._looked_at = override, now
        return self._context

    def _make(self, override: Identity | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(list(self.protocols))
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca_data is None and not self.ca_file:
            context.load_default_certs()
        else:
            source = self.ca_file or "certificate-authority-data"
            try:
                pem = self.ca_data if self.ca_data is not None else Path(self.ca_file).read_bytes()
                context.load_verify_locations(cadata=pem.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError, ValueError):
                raise InputError(f"{source}: no PEM certificate in it") from None
            except OSError as error:
                why = error.strerror or error
                raise InputError(f"{source}: cannot read the certificate authority: {why}") from None
        self._load_identity(context, override)
        return context

    def _load_identity(self, context: ssl.SSLContext, override: Identity | None) -> None:
        chosen = override or self.certificate
        try:
            if chosen is not None:
                load_identity(context, *chosen)
            elif self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file or None)
        except OSError as error:
            source = self.certificate_file or "client-certificate-data"
            why = "certificate and key do not fit together or are not PEM"
            if not isinstance(error, ssl.SSLError):  # Python does not say which of the two files
                source = next((f for f in (source, self.key_file) if f and not os.access(f, os.R_OK)), source)
                why = error.strerror or str(error)
            raise InputError(f"{source}: cannot use the client certificate: {why}") from None


if __name__ == "__main__":
    sys.stdout.buffer.write(b"\0".join(self_signed(*sys.argv[1:])))
