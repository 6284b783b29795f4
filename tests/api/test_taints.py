"""Which toleration covers which taint."""

from __future__ import annotations

import pytest

from mooring.api.core import Taint, Toleration
from mooring.api.selectors import UNSCHEDULABLE, first_untolerated, is_tolerated, tolerates

GPU = Taint("dedicated", "gpu", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "taint", "covered"),
    [
        pytest.param(Toleration("dedicated", "Equal", "gpu", "NoSchedule"), GPU, True, id="everything equal"),
        pytest.param(Toleration("dedicated", "", "gpu", "NoSchedule"), GPU, True, id="no operator means Equal"),
        pytest.param(Toleration("dedicated", "Equal", "tpu"), GPU, False, id="another value"),
        pytest.param(Toleration("other", "Equal", "gpu"), GPU, False, id="another key"),
        pytest.param(Toleration("dedicated", "Equal", "gpu", "NoExecute"), GPU, False, id="another effect"),
        pytest.param(Toleration("dedicated", "Equal", "gpu", ""), GPU, True, id="no effect means every effect"),
        pytest.param(Toleration("dedicated", "Exists"), GPU, True, id="Exists asks for no value"),
        pytest.param(Toleration("dedicated", "Exists", "tpu"), GPU, True, id="Exists ignores a value"),
        pytest.param(Toleration("", "Exists"), GPU, True, id="Exists without a key covers everything"),
        pytest.param(Toleration("", "Exists", "", "NoExecute"), GPU, False, id="but only its effect"),
        pytest.param(
            Toleration("", "Equal", "gpu"), GPU, True, id="an empty key with Equal covers any key of that value"
        ),
        pytest.param(Toleration("", "Equal", ""), GPU, False, id="an empty key with Equal does not cover other values"),
        pytest.param(Toleration("dedicated", "exists"), GPU, False, id="operators are case-sensitive"),
        pytest.param(Toleration("dedicated", "Nonsense", "gpu"), GPU, False, id="an unknown operator covers nothing"),
        pytest.param(Toleration("n", "Gt", "5"), Taint("n", "6", "NoSchedule"), False, id="Gt is off without its gate"),
        pytest.param(Toleration("n", "Lt", "5"), Taint("n", "4", "NoSchedule"), False, id="Lt is off without its gate"),
    ],
)
def test_tolerates(toleration: Toleration, taint: Taint, covered: bool) -> None:
    assert tolerates(toleration, taint) is covered
    assert is_tolerated(taint, [Toleration("unrelated", "Exists"), toleration]) is covered


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "covered"),
    [("Gt", "5", "6", True), ("Gt", "5", "5", False), ("Lt", "5", "4", True), ("Lt", "5", "5", False),
     ("Gt", "5", "many", False), ("Lt", "many", "4", False)],
)  # fmt: skip
def test_comparisons_behind_their_gate(operator: str, wanted: str, value: str, covered: bool) -> None:
    taint = Taint("n", value, "NoSchedule")
    assert tolerates(Toleration("n", operator, wanted), taint, comparison_operators=True) is covered


def test_first_untolerated_looks_only_at_effects_that_keep_pods_away() -> None:
    taints = [Taint("a", "", "PreferNoSchedule"), GPU, Taint("b", "", "NoExecute")]
    assert first_untolerated(taints, []) is GPU
    assert first_untolerated(taints, [Toleration("dedicated", "Exists")]) is taints[2]
    assert first_untolerated(taints, [Toleration("", "Exists")]) is None
    assert first_untolerated(taints[:1], []) is None


def test_cordon_is_tolerated_like_a_taint() -> None:
    assert is_tolerated(UNSCHEDULABLE, [Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule")])
    assert not is_tolerated(UNSCHEDULABLE, [Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoExecute")])
