"""The certificate our own endpoints show: from files that may be replaced, or made on the spot and signed by itself."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from mooring.errors import UsageError
from mooring.observe.logs import get_logger
from mooring.tls import Identity, file_stamp, load_identity, self_signed

log = get_logger("mooring.scheduler.serving")

_VERSIONS = {"": ssl.TLSVersion.TLSv1_2, "VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The flags --tls-cert-file, --tls-private-key-file, --client-ca-file, --tls-min-version, --tls-cipher-suites."""

    certificate_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    min_version: str = ""
    ciphers: str = ""


class ServerTls:
    """The TLS context of the endpoints; ``reload`` takes up files that were replaced."""

    def __init__(
        self,
        files: TlsFiles,
        *,
        hosts: tuple[str, ...],
        client_ca: bytes | None = None,
        make_identity: Callable[..., Identity] = self_signed,
    ) -> None:
        self._files = files
        if bool(files.certificate_file) != bool(files.key_file):
            raise UsageError("--tls-cert-file and --tls-private-key-file go together; only one is given")
        if files.min_version not in _VERSIONS:
            raise UsageError(f"--tls-min-version: {files.min_version!r}; it should be VersionTLS12 or VersionTLS13")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = _VERSIONS[files.min_version]
        self.context.set_alpn_protocols(["http/1.1"])
        if files.ciphers:
            try:
                self.context.set_ciphers(files.ciphers)
            except ssl.SSLError:
                raise UsageError(f"--tls-cipher-suites: {files.ciphers!r}; none of them is known") from None
        self._stamp: object = None
        if files.certificate_file:
            self._load()
        else:
            load_identity(self.context, *make_identity(*hosts))
        self._trust_clients(client_ca)

    def _trust_clients(self, client_ca: bytes | None) -> None:
        try:
            if self._files.client_ca_file:
                self.context.load_verify_locations(self._files.client_ca_file)
            if client_ca:
                self.context.load_verify_locations(cadata=client_ca.decode("ascii"))
        except (OSError, UnicodeDecodeError, ValueError) as error:
            where = self._files.client_ca_file or "the cluster's client CA"
            raise UsageError(f"--client-ca-file {where}: {getattr(error, 'strerror', None) or error}") from None
        if self._files.client_ca_file or client_ca:
            # A client may show a certificate; who shows none is anonymous or has a token.
            self.context.verify_mode = ssl.CERT_OPTIONAL

    def _load(self) -> None:
        files = self._files
        stamp = file_stamp(files.certificate_file), file_stamp(files.key_file)
        try:
            self.context.load_cert_chain(files.certificate_file, files.key_file)
        except ssl.SSLError:
            raise UsageError(
                f"--tls-cert-file {files.certificate_file}: certificate and key do not fit together or are not PEM"
            ) from None
        except OSError as error:
            raise UsageError(f"--tls-cert-file {files.certificate_file}: {error.strerror or error}") from None
        self._stamp = stamp

    def reload(self) -> bool:
        """Take up new files, if there are any; a pair that does not fit is reported and the old one stays in force."""
        files = self._files
        if (
            not files.certificate_file
            or (file_stamp(files.certificate_file), file_stamp(files.key_file)) == self._stamp
        ):
            return False
        try:
            # A pair that does not fit would leave the context without a key: it is tried on another one first.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate_file, files.key_file)
            self._load()
        except (OSError, UsageError) as error:
            log.error(error, "The new serving certificate cannot be used, the old one stays in force")
            return False
        log.info("The serving certificate was replaced")
        return True
