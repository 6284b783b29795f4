"""JSON that is nested too deeply: what is too deep becomes null, the rest stays as it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.codec import MAX_DEPTH, decode, flattened
from mooring.api.resource import ResourceClaim


def nested(levels: int, inside: bytes = b"1") -> bytes:
    return b"[" * levels + inside + b"]" * levels


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(nested(MAX_DEPTH), nested(MAX_DEPTH), id="as deep as allowed"),
        pytest.param(nested(MAX_DEPTH + 1), nested(MAX_DEPTH, b"null"), id="one level more"),
        pytest.param(nested(5000), nested(MAX_DEPTH, b"null"), id="thousands of levels"),
        pytest.param(
            nested(MAX_DEPTH, b'[1], 2, {"a": [3]}, "x"'), nested(MAX_DEPTH, b'null, 2, null, "x"'), id="side by side"
        ),
        pytest.param(
            nested(MAX_DEPTH, b'"[[[", "\\"]", "\\\\"'),
            nested(MAX_DEPTH, b'"[[[", "\\"]", "\\\\"'),
            id="brackets and quotes in strings do not count",
        ),
    ],
)
def test_flattened(data: bytes, want: bytes) -> None:
    assert flattened(data) == want
    json.loads(want)


SCALARS = st.none() | st.integers() | st.text()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_shallow_json_is_unchanged(value: object) -> None:
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert flattened(data) == data


@pytest.mark.parametrize(
    "parameters", [b'{"a":%s}' % nested(5000), b'{"a":' * 2000 + b"1" + b"}" * 2000], ids=["lists", "objects"]
)
def test_a_claim_with_deep_parameters_is_decoded(parameters: bytes) -> None:
    config = b'[{"opaque":{"driver":"d","parameters":%s}}]' % parameters
    claim = decode(
        ResourceClaim, b'{"metadata":{"name":"c"},"spec":{"devices":{"requests":[{"name":"r"}],"config":%s}}}' % config
    )
    assert (claim.name, claim.spec.devices.requests[0].name) == ("c", "r")
