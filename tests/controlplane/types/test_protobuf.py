"""Protocol buffer bodies: whatever the type table can describe is read back as it was written."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.controlplane.types import protobuf, schema
from mooring.controlplane.types.status import StatusError

# An encoder, written after the format's specification and not after the reader.


def varint(number: int) -> bytes:
    number %= 2**64
    out = bytearray()
    while number > 127:
        out.append(number % 128 + 128)
        number //= 128
    return bytes([*out, number])


def tagged(number: int, payload: bytes) -> bytes:
    return varint(number * 8 + 2) + varint(len(payload)) + payload


def number_field(number: int, value: int) -> bytes:
    return varint(number * 8) + varint(value)


def encode_value(number: int, name: str, value: Any) -> bytes:
    if name in ("int32", "int64", "bool"):
        return number_field(number, int(value))
    match name:
        case "string":
            payload = value.encode()
        case "bytes":
            payload = base64.b64decode(value)
        case "time" | "microtime":
            moment = datetime.fromisoformat(value)
            payload = number_field(1, int(moment.timestamp())) + number_field(2, moment.microsecond * 1000)
        case "quantity":
            payload = tagged(1, value.encode())
        case "intstr":
            is_text = isinstance(value, str)
            payload = number_field(1, is_text) + (tagged(3, value.encode()) if is_text else number_field(2, value))
        case "any":
            payload = tagged(1, json.dumps(value).encode())
        case _:
            payload = encode_message(name, value)
    return tagged(number, payload)


def encode_field(number: int, known: schema.Field, value: Any) -> bytes:
    if known.is_list:
        return b"".join(encode_value(number, known.element, item) for item in value)
    if known.is_map:
        entries = (encode_value(1, "string", key) + encode_value(2, known.element, item) for key, item in value.items())
        return b"".join(tagged(number, entry) for entry in entries)
    return encode_value(number, known.type, value)


def encode_message(name: str, obj: dict[str, Any]) -> bytes:
    out = b""
    embedded: dict[int, bytes] = {}
    for key, value in obj.items():
        known = schema.types()[name].fields[key]
        outer, _, inner = known.number.partition(".")
        if inner:
            embedded[int(outer)] = embedded.get(int(outer), b"") + encode_field(int(inner), known, value)
        elif outer != "0":
            out += encode_field(int(outer), known, value)
    return out + b"".join(tagged(number, payload) for number, payload in embedded.items())


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return protobuf.MAGIC + tagged(1, tagged(1, api_version.encode()) + tagged(2, kind.encode())) + tagged(2, raw)


# Objects of a type, with values that say something: zeros and empty texts may be left out by the reader.

TEXTS = st.text(min_size=1, max_size=5)
TIMES = st.integers(1, 4_000_000_000).map(lambda second: datetime.fromtimestamp(second, UTC))
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "bytes": st.binary(min_size=1, max_size=5).map(lambda raw: base64.b64encode(raw).decode()),
    "bool": st.just(True),
    "int32": st.integers(-(2**31), 2**31 - 1).filter(bool),
    "int64": st.integers(-(2**63), 2**63 - 1).filter(bool),
    "time": TIMES.map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ")),
    "microtime": TIMES.map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%S.000007Z")),
    "quantity": st.sampled_from(["1", "500m", "2Gi"]),
    "intstr": st.integers(1, 9) | st.sampled_from(["25%", "http"]),
    "any": st.dictionaries(TEXTS, st.integers(), max_size=2),
}


@st.composite
def values(draw: st.DrawFn, name: str, depth: int) -> Any:
    if name in SCALARS:
        return draw(SCALARS[name])
    fields = [known for known in schema.types()[name].fields.values() if known.number not in ("0", "")]
    if depth > 4:
        fields = [known for known in fields if known.element in SCALARS]
    chosen = draw(st.lists(st.sampled_from(fields), max_size=3, unique_by=lambda known: known.name)) if fields else []
    obj = {}
    for known in chosen:
        if known.is_list:
            obj[known.name] = draw(st.lists(values(known.element, depth + 1), min_size=1, max_size=2))
        elif known.is_map:
            obj[known.name] = draw(st.dictionaries(TEXTS, values(known.element, depth + 1), min_size=1, max_size=2))
        else:
            obj[known.name] = draw(values(known.type, depth + 1))
    return obj


@pytest.mark.parametrize(
    ("api_version", "kind", "type_name"),
    [
        ("v1", "Pod", "core.v1.Pod"),
        ("v1", "Node", "core.v1.Node"),
        ("apps/v1", "Deployment", "apps.v1.Deployment"),
        ("resource.k8s.io/v1", "ResourceClaim", "resource.v1.ResourceClaim"),
        ("events.k8s.io/v1", "Event", "events.v1.Event"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "rbac.v1.ClusterRole"),
        ("policy/v1", "Eviction", "policy.v1.Eviction"),
        ("v1", "DeleteOptions", "meta.v1.DeleteOptions"),
    ],
)
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_written_is_read_back(api_version: str, kind: str, type_name: str, data: st.DataObject) -> None:
    obj = data.draw(values(type_name, 0))
    read = json.loads(protobuf.to_json(envelope(api_version, kind, encode_message(type_name, obj))))
    assert read == {"kind": kind, "apiVersion": api_version, **obj}


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param(
            {"metadata": {"name": "a", "generation": 0}}, {"metadata": {"name": "a"}}, id="a zero is left out"
        ),
        pytest.param({"spec": {"nodeName": ""}}, {"spec": {}}, id="an empty text is left out"),
        pytest.param(
            {"spec": {"terminationGracePeriodSeconds": 0}},
            {"spec": {"terminationGracePeriodSeconds": 0}},
            id="a zero that says something stays",
        ),
        pytest.param(
            {"spec": {"enableServiceLinks": False}}, {"spec": {"enableServiceLinks": False}}, id="false stays"
        ),
    ],
)
def test_values_that_say_nothing(raw: dict[str, Any], want: dict[str, Any]) -> None:
    read = json.loads(protobuf.to_json(envelope("v1", "Pod", encode_message("core.v1.Pod", raw))))
    assert read == {"kind": "Pod", "apiVersion": "v1", **want}


def test_an_empty_storage_class_is_a_wish() -> None:
    raw = encode_message("core.v1.PersistentVolumeClaim", {"spec": {"storageClassName": ""}})
    read = json.loads(protobuf.to_json(envelope("v1", "PersistentVolumeClaim", raw)))
    assert read["spec"] == {"storageClassName": ""}


@pytest.mark.parametrize(
    ("seconds", "nanos", "want"),
    [
        (0, 0, None),
        (0, 1000, "1970-01-01T00:00:00Z"),
        (-1, 0, "1969-12-31T23:59:59Z"),
        (2**37, 0, "6325-04-08T15:04:32Z"),
        (2**37 + 1, 0, None),
        (-(2**35) - 1, 0, None),
    ],
    ids=["no time", "a moment after the epoch", "before it", "far away", "too far away", "too long ago"],
)
def test_times(seconds: int, nanos: int, want: str | None) -> None:
    stamp = tagged(8, number_field(1, seconds) + number_field(2, nanos))  # creationTimestamp
    read = json.loads(protobuf.to_json(envelope("v1", "Pod", tagged(1, stamp))))
    assert read["metadata"].get("creationTimestamp") == want


def test_unknown_fields_are_skipped() -> None:
    unknown = number_field(999, 5) + tagged(998, b"x") + varint(997 * 8 + 1) + bytes(8) + varint(996 * 8 + 5) + bytes(4)
    raw = encode_message("core.v1.Pod", {"metadata": {"name": "a"}}) + unknown
    assert json.loads(protobuf.to_json(envelope("v1", "Pod", raw)))["metadata"] == {"name": "a"}


def test_an_empty_body_stays_empty() -> None:
    assert protobuf.to_json(b"") == b""


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"{}", "expected prefix k8s", id="JSON"),
        pytest.param(envelope("v1", "Gadget", b""), 'no kind "Gadget" is registered for version "v1"', id="no kind"),
        pytest.param(envelope("v9", "Pod", b""), 'no kind "Pod" is registered for version "v9"', id="no version"),
        pytest.param(envelope("v1", "Pod", b"\x0a"), "not a well-formed", id="a length is missing"),
        pytest.param(envelope("v1", "Pod", b"\x0a\x05ab"), "not a well-formed", id="shorter than it says"),
        pytest.param(envelope("v1", "Pod", b"\xff" * 11), "not a well-formed", id="a number without end"),
        pytest.param(envelope("v1", "Pod", b"\x0b"), "not a well-formed", id="a group, which is no longer used"),
        pytest.param(envelope("v1", "Pod", b"\x09abc"), "not a well-formed", id="eight bytes that are three"),
        pytest.param(envelope("v1", "Pod", number_field(1, 5)), "not a well-formed", id="a number for a message"),
        pytest.param(envelope("v1", "Pod", tagged(1, tagged(1, b"\xff"))), "not a well-formed", id="not UTF-8"),
        pytest.param(
            envelope("v1", "Pod", tagged(1, number_field(11, 3))), "not a well-formed", id="a number for a map entry"
        ),
        pytest.param(
            envelope("v1", "ControllerRevision", b"").replace(b"v1", b"apps/v1", 1),
            "not a well-formed",
            id="a bad length",
        ),
        pytest.param(
            envelope("apps/v1", "ControllerRevision", tagged(2, tagged(1, b"{"))), "not a well-formed", id="broken JSON"
        ),
    ],
)
def test_what_is_not_a_message_is_one_clear_line(body: bytes, want: str) -> None:
    with pytest.raises(StatusError, match=want) as refused:
        protobuf.to_json(body)
    assert refused.value.code == 400


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        json.loads(protobuf.to_json(envelope("v1", "Pod", raw)))
    except StatusError as error:
        assert error.code == 400


def test_nesting_has_an_end() -> None:
    raw = b""
    for _ in range(100):
        raw = tagged(1, raw)
    with pytest.raises(StatusError):
        protobuf._message("meta.v1.LabelSelector", raw, protobuf.MAX_DEPTH + 1)
