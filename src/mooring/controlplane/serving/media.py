"""Content negotiation: which form of an answer a client accepts, and what a body is."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from mooring.controlplane.types.status import not_acceptable

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"


class Accept(msgspec.Struct, frozen=True):
    """``form`` is empty for the object itself, else Table, PartialObjectMetadata(List) or APIGroupDiscoveryList."""

    form: str = ""
    version: str = ""


_FORMS = {
    ("meta.k8s.io", "Table"): "Table",
    ("meta.k8s.io", "PartialObjectMetadata"): "PartialObjectMetadata",
    ("meta.k8s.io", "PartialObjectMetadataList"): "PartialObjectMetadata",
    ("apidiscovery.k8s.io", "APIGroupDiscoveryList"): "APIGroupDiscoveryList",
}


@lru_cache(maxsize=512)
def accept(header: str) -> Accept:
    """The first acceptable form we can make; 406 when there is none."""
    if not header:
        return Accept()
    for part in header.split(","):
        kind, *rest = (piece.strip() for piece in part.split(";"))
        options = dict(piece.partition("=")[::2] for piece in rest)
        if kind not in (JSON, "application/*", "*/*"):
            continue
        if "as" not in options:
            return Accept()
        form = _FORMS.get((options.get("g", ""), options["as"]))
        version = options.get("v", "")
        if form is None:
            continue
        if form == "APIGroupDiscoveryList" and version != "v2":
            continue
        if form != "APIGroupDiscoveryList" and version not in ("v1", "v1beta1"):
            continue
        return Accept(form, version)
    raise not_acceptable([JSON])


def content_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()
