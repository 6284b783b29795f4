"""Which proxy a request goes through: the rules of HTTP_PROXY, HTTPS_PROXY and NO_PROXY as Go reads them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_from_environment(url: str, environ: Mapping[str, str]) -> str | None:
    """Find the proxy for ``url``; local addresses never use one."""
    parts = urlsplit(url)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower())
    if not proxy:
        return None
    host = (parts.hostname or "").lower().rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if _bypasses(host, port, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _bypasses(host: str, port: int, no_proxy: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for entry in no_proxy.split(","):
        entry = entry.strip().lower()
        if entry == "*":
            return True
        if entry and _matches(entry, host, port, address):
            return True
    return False


def _matches(entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted_port = entry, ""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        wanted_port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, wanted_port = entry.partition(":")
    if wanted_port and wanted_port != str(port):
        return False
    entry_address = _address(name)
    if entry_address is not None:
        return entry_address == address
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith("." + name)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
