"""How the API server is verified, and which certificate is shown to it."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field, replace
from pathlib import Path

from mooring.client.credentials import ClientCertificate
from mooring.clock import Clock, SystemClock
from mooring.errors import InputError
from mooring.tls import file_stamp, load_identity

FILES_PERIOD_S = 1.0
"""How often files are looked at: a look takes three system calls, and every write asks for the context."""


@dataclass(slots=True)
class TlsSettings:
    """How the server is verified and which certificate we show; contexts follow files that are replaced."""

    ca_data: bytes | None = None
    ca_file: str = ""
    insecure: bool = False
    server_name: str = ""
    certificate: ClientCertificate | None = None
    certificate_file: str = ""
    key_file: str = ""
    protocols: tuple[str, ...] = ("http/1.1",)  # what the server may choose from
    _context: ssl.SSLContext | None = field(default=None, repr=False)
    clock: Clock = field(default_factory=SystemClock, repr=False)
    _made_from: object = field(default=None, repr=False)
    _override: ClientCertificate | None = field(default=None, repr=False)
    _looked_at: float = field(default=float("-inf"), repr=False)

    def for_protocols(self, *protocols: str) -> TlsSettings:
        """The same for connections of which the server may choose another protocol, the best first."""
        return replace(self, protocols=protocols, _context=None, _looked_at=float("-inf"))

    def context(self, override: ClientCertificate | None = None) -> ssl.SSLContext:
        """Give the context for a new connection; it is made again when a file or the plugin's certificate changed.

        A file that changes is noticed within a second.
        """
        now = self.clock.monotonic()
        if self._context is not None and override is self._override and now - self._looked_at < FILES_PERIOD_S:
            return self._context
        made_from = (override, file_stamp(self.ca_file), file_stamp(self.certificate_file), file_stamp(self.key_file))
        if self._context is None or made_from != self._made_from:
            self._context, self._made_from = self._make(override), made_from
        self._override, self._looked_at = override, now
        return self._context

    def _make(self, override: ClientCertificate | None) -> ssl.SSLContext:
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

    def _load_identity(self, context: ssl.SSLContext, override: ClientCertificate | None) -> None:
        chosen = override or self.certificate
        try:
            if chosen is not None:
                load_identity(context, chosen.certificate, chosen.key)
            elif self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file or None)
        except OSError as error:
            source = self.certificate_file or "client-certificate-data"
            why = "certificate and key do not fit together or are not PEM"
            if not isinstance(error, ssl.SSLError):  # which of the two files, Python does not say
                source = next((f for f in (source, self.key_file) if f and not os.access(f, os.R_OK)), source)
                why = error.strerror or str(error)
            raise InputError(f"{source}: cannot use the client certificate: {why}") from None
