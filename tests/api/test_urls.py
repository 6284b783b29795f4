"""What of a URL may be shown."""

from __future__ import annotations

import pytest

from mooring.api.text import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("http://host:8888/ext", "http://host:8888/ext", id="nothing to hide"),
        pytest.param("http://user:secret@host:1/ext", "http://user:***@host:1/ext", id="a password"),
        pytest.param("https://:secret@host", "https://:***@host", id="a password without a user"),
        pytest.param("http://user@host", "http://user@host", id="a user without a password"),
        pytest.param("http://user:se:c@ret@host/a@b", "http://user:***@host/a@b", id="a password with odd characters"),
        pytest.param("http://host/a:b@c", "http://host/a:b@c", id="a path that looks like one"),
        pytest.param("//user:secret@host", "//user:***@host", id="no scheme"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
