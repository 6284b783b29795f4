"""Amounts as people write them."""

from __future__ import annotations

import pytest

from mooring.core.state.requests import display_name, rounded_up, written

MI, GI = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("resource", "amount", "want"),
    [
        pytest.param("cpu", 1500, "1500m", id="thousandths of a core"),
        pytest.param("cpu", 2000, "2", id="whole cores"),
        pytest.param("memory", 512 * MI, "512Mi", id="mebibytes"),
        pytest.param("memory", GI * 3 // 2, "1.5Gi", id="a fraction that is exact"),
        pytest.param("memory", GI + 1, "1073741825", id="exact rather than round"),
        pytest.param("ephemeral-storage", 0, "0", id="nothing"),
        pytest.param("hugepages-2Mi", 4 * MI, "4Mi", id="huge pages are bytes"),
        pytest.param("example.com/gpu", 1024, "1024", id="other resources are counted"),
    ],
)
def test_written(resource: str, amount: int, want: str) -> None:
    assert written(resource, amount) == want


@pytest.mark.parametrize(
    ("resource", "amount", "want"),
    [
        pytest.param("memory", 5 * MI + 1, 6 * MI, id="up to whole mebibytes"),
        pytest.param("memory", 100, 100, id="less than one stays"),
        pytest.param("cpu", 201, 201, id="thousandths are handy enough"),
    ],
)
def test_rounded_up(resource: str, amount: int, want: int) -> None:
    assert rounded_up(resource, amount) == want


def test_display_name() -> None:
    assert (display_name("cpu"), display_name("memory")) == ("CPU", "memory")
