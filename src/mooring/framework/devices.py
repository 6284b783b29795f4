"""Extended resources that DeviceClasses stand for, as plugins that count resources ask for them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mooring.api.resource import DeviceClass
from mooring.state.node_rows import NodeRows


class Devices(Protocol):
    """Extended resources that DeviceClasses stand for: some nodes offer them as devices instead of a number."""

    def backs(self, resource: str) -> bool:
        """Report whether a DeviceClass stands for the resource."""

    def totals(self, resource: str, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(matching devices, those of them that are allocated) per node."""

    def mapping_version(self) -> Hashable:
        """Something that differs after the answers of ``backs`` may have changed."""

    def get_ready(self, found: DeviceClass) -> None:
        """Do now what the first pod that asks for devices of this class would have to wait for."""


class NoDevices:
    """No DeviceClass stands for anything."""

    def backs(self, resource: str) -> bool:
        return False

    def totals(self, resource: str, nodes: NodeRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)

    def mapping_version(self) -> Hashable:
        return 0

    def get_ready(self, found: DeviceClass) -> None:
        pass
