"""What a scorer may return, and which scores become of it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from asking import NAMES, ask, returning

from mooring.net.extender.sdk import CallFacts, HandlerError
from mooring.net.extender.verbs import prioritize_verb


@pytest.mark.parametrize(
    ("returned", "want"),
    [
        pytest.param([4, 3, 2, 1], dict(zip(NAMES, [4, 3, 2, 1], strict=True)), id="a list, one for each node"),
        pytest.param({NAMES[2]: 7}, {NAMES[2]: 7}, id="a mapping with some of them"),
        pytest.param([(NAMES[1], 5)], {NAMES[1]: 5}, id="pairs"),
        pytest.param({}, {}, id="nothing"),
        pytest.param([3.0, 2.0, 1.0, 0.0], dict(zip(NAMES, [3, 2, 1, 0], strict=True)), id="whole floats"),
        pytest.param({NAMES[0]: np.int64(9)}, {NAMES[0]: 9}, id="NumPy's numbers"),
        pytest.param({NAMES[0]: Fraction(4, 2)}, {NAMES[0]: 2}, id="a fraction that is whole"),
        pytest.param({NAMES[0]: -3}, {NAMES[0]: -3}, id="any whole number: the scheduler does not look"),
        pytest.param({"stranger": 1}, {"stranger": 1}, id="a node that was not offered: neither does it look there"),
    ],
)
def test_scores_for_all_nodes_together(returned: Any, want: dict[str, int]) -> None:
    answer, facts = ask(prioritize_verb(returning(returned, hint=list[str]), "p"), by_name=True)
    assert answer == [{"Host": name, "Score": score} for name, score in want.items()]
    assert facts == CallFacts("default/web", 4, len(want))


@pytest.mark.parametrize("hint", [None, str, dict[str, Any]], ids=["nodes", "names", "plain data"])
def test_a_score_for_each_node(hint: Any) -> None:
    def name_of(node: Any) -> str:
        return node if hint is str else node["metadata"]["name"] if hint else node.name

    function = returning(lambda node: int(name_of(node)[-1]), second="node", hint=hint)
    answer, _ = ask(prioritize_verb(function, "p"))
    assert answer == [{"Host": name, "Score": i} for i, name in enumerate(NAMES)]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        pytest.param([1, 2], "prioritize returned a list of 2; expected a mapping", id="too short a list"),
        pytest.param([1] * 5, "prioritize returned a list of 5; expected a mapping", id="too long a list"),
        pytest.param(7, "prioritize returned 7; expected a mapping", id="one number"),
        pytest.param(None, "prioritize returned None; expected a mapping", id="nothing"),
        pytest.param("9999", "prioritize returned '9999'; expected a mapping", id="a text as long as the nodes"),
        pytest.param([(1, 2, 3)], "prioritize returned a list of 1; expected a mapping", id="no pairs"),
        pytest.param([True] * 4, f"prioritize gives {NAMES[0]!r} True; expected a whole number", id="truths"),
        pytest.param({NAMES[1]: 2.5}, f"prioritize gives {NAMES[1]!r} 2.5; expected a whole number", id="a half"),
        pytest.param({NAMES[1]: "3"}, f"prioritize gives {NAMES[1]!r} '3'; expected a whole number", id="a text"),
        pytest.param({NAMES[1]: None}, f"prioritize gives {NAMES[1]!r} None; expected a whole number", id="no score"),
        pytest.param(
            {NAMES[1]: float("inf")}, f"prioritize gives {NAMES[1]!r} inf; expected a whole number", id="no end"
        ),
        pytest.param(
            {NAMES[1]: float("nan")}, f"prioritize gives {NAMES[1]!r} nan; expected a whole number", id="no number"
        ),
    ],
)
def test_what_no_scorer_may_return(returned: Any, said: str) -> None:
    with pytest.raises(HandlerError) as caught:
        ask(prioritize_verb(returning(returned, hint=list[str]), "p"), by_name=True)
    assert str(caught.value).startswith(said)
