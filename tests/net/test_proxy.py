"""NO_PROXY as Go reads it."""

from __future__ import annotations

import pytest

from mooring.net.connect import proxy_from_environment


@pytest.mark.parametrize(
    ("url", "no_proxy", "uses"),
    [
        pytest.param("https://api.example", "", True, id="nothing excluded"),
        pytest.param("https://localhost:6443", "", False, id="localhost never"),
        pytest.param("https://127.0.0.1:6443", "", False, id="loopback never"),
        pytest.param("https://api.example", "*", False, id="a star excludes all"),
        pytest.param("https://api.example", "example", False, id="a domain excludes its hosts"),
        pytest.param("https://example", "example", False, id="a domain excludes itself"),
        pytest.param("https://example", ".example", True, id="a leading dot means hosts only"),
        pytest.param("https://notexample", "example", True, id="a suffix is not a domain"),
        pytest.param("https://10.1.2.3", "10.0.0.0/8", False, id="a network excludes its addresses"),
        pytest.param("https://11.1.2.3", "10.0.0.0/8", True, id="another network does not"),
        pytest.param("https://10.1.2.3", "10.1.2.3", False, id="an address"),
        pytest.param("https://api.example:6443", "api.example:6443", False, id="host and port"),
        pytest.param("https://api.example:6443", "api.example:443", True, id="another port"),
        pytest.param("https://[fd00::1]:6443", "[fd00::1]:6443", False, id="IPv6 and port"),
    ],
)
def test_no_proxy(url, no_proxy, uses):
    environ = {"HTTPS_PROXY": "proxy.example:3128", "no_proxy": no_proxy}
    assert proxy_from_environment(url, environ) == ("http://proxy.example:3128" if uses else None)


def test_the_scheme_chooses_the_variable():
    environ = {"http_proxy": "http://a:1", "https_proxy": "http://b:2"}
    assert proxy_from_environment("http://x.example", environ) == "http://a:1"
    assert proxy_from_environment("https://x.example", environ) == "http://b:2"
    assert proxy_from_environment("https://x.example", {}) is None
