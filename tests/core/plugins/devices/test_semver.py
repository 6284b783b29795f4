from __future__ import annotations

import pytest

from mooring.api.errors import ParseError
from mooring.core.plugins.devices.cel_functions import normalize_version, parse_version


def test_versions_are_ordered_as_semver_says() -> None:
    ordered = [
        "1.0.0-1",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-beta",
        "1.0.0",
        "1.0.1",
        "1.2.0",
        "1.10.0",
        "2.0.0",
    ]
    versions = [parse_version(text) for text in ordered]
    for i, a in enumerate(versions):
        for j, b in enumerate(versions):
            assert a.compare(b) == (i > j) - (i < j), (ordered[i], ordered[j])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "Version string empty", id="nothing"),
        pytest.param("1.2", "No Major.Minor.Patch elements found", id="two numbers"),
        pytest.param("a.2.3", 'Invalid character(s) found in major number "a"', id="a word"),
        pytest.param("1.02.3", 'Minor number must not contain leading zeroes "02"', id="a leading zero"),
        pytest.param("1.2.3-", "Prerelease is empty", id="an empty prerelease"),
        pytest.param("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"', id="an underscore"),
        pytest.param("1.2.3+ä", 'Invalid character(s) found in build meta data "ä"', id="an umlaut in the build"),
    ],
)
def test_what_is_no_version(text: str, complaint: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_version(text)
    assert str(error.value) == complaint


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("v1", "1.0.0", id="a v and one number"),
        pytest.param("01.02", "1.2.0", id="leading zeroes"),
        pytest.param("1.2.3-rc.1", "1.2.3-rc.1", id="nothing to do"),
    ],
)
def test_normalising(text: str, want: str) -> None:
    assert normalize_version(text) == want
