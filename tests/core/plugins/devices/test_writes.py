"""What is asked of the API server: patches and the order in which they are sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.core import ContainerExtendedResourceRequest, Pod
from mooring.api.meta import ObjectMeta
from mooring.api.resource import DELETE_PROTECTION_FINALIZER, ResourceClaim
from mooring.core.plugins.devices.allocator import (
    MERGE,
    STRATEGIC_MERGE,
    ClaimWrite,
    Deallocate,
    DeleteClaim,
    Unreserve,
    extended_status_patch,
    finalizer_patch,
    perform,
    reserve_patch,
)
from mooring.core.plugins.devices.claims import consumer_of

from .builders import Wire, allocation

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="uid-p"))
ME = {"name": "p", "uid": "uid-p", "resource": "pods"}
OTHER = {"name": "q", "uid": "uid-q", "resource": "pods"}
HELD = {"devices": {"results": [{"request": "r", "driver": "drv", "pool": "p", "device": "a"}]}}
READ = {"uid": "u", "resourceVersion": "7"}


def stored(finalizers: tuple[str, ...] = (), **status: Any) -> ResourceClaim:
    meta = {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "7", "finalizers": finalizers}
    return msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)


class Log:
    """A writer that only remembers."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    async def patch_claim(
        self, namespace: str, name: str, patch: Wire, *, subresource: str = "", content_type: str = MERGE
    ) -> None:
        self.sent.append((subresource, content_type, patch))

    async def delete_claim(self, namespace: str, name: str) -> None:
        self.sent.append(("delete",))


@pytest.mark.parametrize(
    ("write", "want"),
    [
        pytest.param(
            Deallocate(stored()),
            [("status", MERGE, {"metadata": READ, "status": dict.fromkeys(("allocation", "reservedFor", "devices"))})],
            id="give devices back, unless the claim has changed",
        ),
        pytest.param(
            Unreserve(stored(), "uid-p"),
            [
                (
                    "status",
                    STRATEGIC_MERGE,
                    {"metadata": {"uid": "u"}, "status": {"reservedFor": [{"$patch": "delete", "uid": "uid-p"}]}},
                )
            ],
            id="remove one pod's reservation after other changes",
        ),
        pytest.param(DeleteClaim(stored()), [("delete",)], id="delete"),
        pytest.param(
            DeleteClaim(stored(("other", DELETE_PROTECTION_FINALIZER))),
            [("", MERGE, {"metadata": {"uid": "u", "finalizers": ["other"]}}), ("delete",)],
            id="delete what is protected",
        ),
    ],
)
async def test_what_is_sent(write: ClaimWrite, want: list[tuple[Any, ...]]) -> None:
    log = Log()
    await perform(log, write)  # type: ignore[arg-type]
    assert log.sent == want


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param(stored((DELETE_PROTECTION_FINALIZER,)), None, id="protected already"),
        pytest.param(
            stored(("other",)),
            {"metadata": {**READ, "finalizers": ["other", DELETE_PROTECTION_FINALIZER]}},
            id="beside others",
        ),
    ],
)
def test_protection_from_deletion(claim: ResourceClaim, want: Wire | None) -> None:
    assert finalizer_patch(claim) == want


@pytest.mark.parametrize(
    ("claim", "is_ours", "want"),
    [
        pytest.param(
            stored(), True, {"reservedFor": [ME], "allocation": {**HELD, "allocationTimestamp": "now"}}, id="ours"
        ),
        pytest.param(
            stored(allocation=HELD, reservedFor=[OTHER]),
            False,
            {"reservedFor": [OTHER, ME], "allocation": {"allocationTimestamp": "now"}},
            id="another pod's, without a time",
        ),
        pytest.param(
            stored(allocation={**HELD, "allocationTimestamp": "then"}, reservedFor=[OTHER]),
            False,
            {"reservedFor": [OTHER, ME]},
            id="another pod's",
        ),
    ],
)
def test_allocation_and_reservation(claim: ResourceClaim, is_ours: bool, want: Wire) -> None:
    ours = allocation(*HELD["devices"]["results"]) if is_ours else None
    patch = reserve_patch(claim, consumer_of(POD), ours, "now")
    assert patch == {"metadata": READ, "status": want}


def test_no_time_is_kept_where_binding_conditions_are_off() -> None:
    patch = reserve_patch(stored(), consumer_of(POD), allocation(*HELD["devices"]["results"]), "")
    assert patch == {"metadata": READ, "status": {"reservedFor": [ME], "allocation": HELD}}


def test_which_container_uses_which_request() -> None:
    patch = extended_status_patch(stored(), [ContainerExtendedResourceRequest("main", "example.com/gpu", "r")])
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r"}
    assert patch == {
        "status": {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [mapping]}}
    }
