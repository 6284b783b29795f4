"""TLS on both sides: an entry's settings as kube-scheduler understands them, and a server's certificate."""

from __future__ import annotations

import ssl

from mooring.config.types import Extender, ExtenderTLSConfig
from mooring.errors import ConfigError, UsageError
from mooring.tls import load_identity


def tls_context(config: Extender) -> ssl.SSLContext | None:
    """The context for an extender; None: the system's certificates and nothing special."""
    tls = config.tls_config or ExtenderTLSConfig()
    has_ca = bool(tls.ca_file or tls.ca_data)
    insecure = tls.insecure or (config.enable_https and not has_ca)
    if config.tls_config is None and not insecure:
        return None
    if has_ca and insecure:
        raise ConfigError("specifying a root certificates file with the insecure flag is not allowed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif has_ca:
        _trust(context, tls)
    else:
        context.load_default_certs()
    _identify(context, tls)
    return context


def server_context(certificate_file: str, key_file: str, client_ca_file: str = "") -> ssl.SSLContext:
    """The context of a server; with a client CA only clients with a certificate of that CA are served."""
    if not certificate_file or not key_file:
        raise UsageError("--tls-cert-file and --tls-private-key-file go together; only one is given")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate_file, key_file)
    except ssl.SSLError:
        raise UsageError(
            f"--tls-cert-file {certificate_file}: certificate and key do not fit together or are not PEM"
        ) from None
    except OSError as error:
        raise UsageError(f"--tls-cert-file {certificate_file}: {(error.strerror or str(error)).lower()}") from None
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except (ssl.SSLError, OSError):
            raise UsageError(f"--client-ca-file {client_ca_file}: no certificates in PEM form there") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _trust(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    pem = tls.ca_data or _read("tlsConfig.caFile", tls.ca_file)
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        where = "tlsConfig.caData" if tls.ca_data else f"tlsConfig.caFile {tls.ca_file}"
        raise ConfigError(f"unable to load root certificates: {where} has no certificate in PEM form") from None


def _identify(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    certificate = tls.cert_data or (_read("tlsConfig.certFile", tls.cert_file) if tls.cert_file else b"")
    key = tls.key_data or (_read("tlsConfig.keyFile", tls.key_file) if tls.key_file else b"")
    if not certificate or not key:
        return  # upstream needs both to show one
    try:
        load_identity(context, certificate, key)
    except (ssl.SSLError, OSError):
        raise ConfigError("tlsConfig: certificate and key do not fit together or are not PEM") from None


def _read(field: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{field}: open {path}: {(error.strerror or str(error)).lower()}") from None
