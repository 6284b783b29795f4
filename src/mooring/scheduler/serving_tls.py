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
    """The TLS context of the endpoints; ``reload`` makes another one when files were replaced.

    A context that clients shake hands with in other threads is never changed: between its new certificate and its new
    key it would have none that fits.
    """

    def __init__(
        self,
        files: TlsFiles,
        *,
        hosts: tuple[str, ...],
        client_ca: bytes | None = None,
        make_identity: Callable[..., Identity] = self_signed,
    ) -> None:
        self._files, self._client_ca = files, client_ca
        if bool(files.certificate_file) != bool(files.key_file):
            raise UsageError("--tls-cert-file and --tls-private-key-file go together; only one is given")
        if files.min_version not in _VERSIONS:
            raise UsageError(f"--tls-min-version: {files.min_version!r}; it should be VersionTLS12 or VersionTLS13")
        self._stamp = self._stamp_now()
        self.context = self._context()
        if files.certificate_file:
            _load(self.context, files)
        else:
            load_identity(self.context, *make_identity(*hosts))

    def _stamp_now(self) -> object:
        return file_stamp(self._files.certificate_file), file_stamp(self._files.key_file)

    def _context(self) -> ssl.SSLContext:
        """A context without a certificate of its own."""
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[files.min_version]
        context.set_alpn_protocols(["http/1.1"])
        if files.ciphers:
            try:
                context.set_ciphers(files.ciphers)
            except ssl.SSLError:
                raise UsageError(f"--tls-cipher-suites: {files.ciphers!r}; none of them is known") from None
        try:
            if files.client_ca_file:
                context.load_verify_locations(files.client_ca_file)
            if self._client_ca:
                context.load_verify_locations(cadata=self._client_ca.decode("ascii"))
        except (OSError, UnicodeDecodeError, ValueError) as error:
            where = files.client_ca_file or "the cluster's client CA"
            raise UsageError(f"--client-ca-file {where}: {getattr(error, 'strerror', None) or error}") from None
        if files.client_ca_file or self._client_ca:
            # A client may show a certificate; who shows none is anonymous or has a token.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def reload(self) -> bool:
        """Take up new files, if there are any; a pair that does not fit is reported and the old one stays in force."""
        stamp = self._stamp_now()  # first: what is replaced meanwhile is read again
        if not self._files.certificate_file or stamp == self._stamp:
            return False
        try:
            context = self._context()
            _load(context, self._files)
        except (OSError, UsageError) as error:
            log.error(error, "The new serving certificate cannot be used, the old one stays in force")
            return False
        self.context, self._stamp = context, stamp
        log.info("The serving certificate was replaced")
        return True


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.certificate_file, files.key_file)
    except ssl.SSLError:
        raise UsageError(
            f"--tls-cert-file {files.certificate_file}: certificate and key do not fit together or are not PEM"
        ) from None
    except OSError as error:
        raise UsageError(f"--tls-cert-file {files.certificate_file}: {error.strerror or error}") from None
