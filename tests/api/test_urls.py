"""What of a URL may be shown."""

from __future__ import annotations

import pytest

from mooring.api.text import without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("http://host:8888/ext", "http://host:8888/ext", id="nothing to hide"),
        pytest.param("http://user:secret@host:1/ext", "http://user:***@host:1/ext", id="a password"),
        pytest.param("https://:secret@host", "https://:***@host", id="a password without a user"),
        pytest.param("http://token@host", "http://***@host", id="a user without a password, which may be a token"),
        pytest.param("http://host/e?token=secret&a=b", "http://host/e?token=***&a=***", id="a query"),
        pytest.param("http://host/e?secret", "http://host/e?***", id="a query without names"),
        pytest.param("http://host/e?token=secret/filter", "http://host/e?token=***", id="a verb behind a query"),
        pytest.param("http://host/e?a=&&b=x;c=y", "http://host/e?a=&&b=***", id="an odd query"),
        pytest.param("http://host/e?a=b@c:d", "http://host/e?a=***", id="a query that looks like a user"),
        pytest.param("http://host/e#secret", "http://host/e#***", id="a fragment"),
        pytest.param("http://user:se:c@ret@host/a@b", "http://user:***@host/a@b", id="a password with odd characters"),
        pytest.param("http://host/a:b@c", "http://host/a:b@c", id="a path that looks like one"),
        pytest.param("//user:secret@host", "//user:***@host", id="no scheme"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_secrets_are_not_shown(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
