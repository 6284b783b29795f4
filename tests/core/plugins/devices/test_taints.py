"""Device taints and tolerations."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.resource import Device, DeviceToleration
from mooring.core.plugins.devices.cluster_devices import prevents_allocation

from .builders import Wire

SICK: Wire = {"key": "sick", "value": "very", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "want"),
    [
        pytest.param([], [], False, id="no taint"),
        pytest.param([SICK], [], True, id="an intolerable taint"),
        pytest.param([SICK | {"effect": "NoExecute"}], [], True, id="so does NoExecute"),
        pytest.param([SICK | {"effect": "None"}], [], False, id="an effect that prevents nothing"),
        pytest.param([SICK], [{"operator": "Exists"}], False, id="a toleration of everything"),
        pytest.param([SICK], [{"key": "sick", "operator": "Exists"}], False, id="a toleration of the key"),
        pytest.param([SICK], [{"key": "other", "operator": "Exists"}], True, id="a toleration of another key"),
        pytest.param([SICK], [{"key": "sick", "operator": "Equal", "value": "very"}], False, id="the same value"),
        pytest.param([SICK], [{"key": "sick", "value": "very"}], False, id="Equal is the default"),
        pytest.param([SICK], [{"key": "sick", "value": "a bit"}], True, id="another value"),
        pytest.param([SICK], [{"operator": "Exists", "effect": "NoExecute"}], True, id="another effect"),
        pytest.param([SICK], [{"operator": "Exists", "effect": "NoSchedule"}], False, id="the same effect"),
        pytest.param([SICK], [{"operator": "Sometimes", "key": "sick"}], True, id="an unknown operator"),
        pytest.param(
            [SICK, SICK | {"key": "old"}], [{"key": "sick", "operator": "Exists"}], True, id="one of two is tolerated"
        ),
    ],
)
def test_what_prevents_allocation(taints: list[Wire], tolerations: list[Wire], want: bool) -> None:
    tainted = msgspec.convert({"name": "d", "taints": taints}, Device)
    assert prevents_allocation(tainted, msgspec.convert(tolerations, list[DeviceToleration])) is want
