"""Terms counted for all kinds of pods together match the same pods as each term by itself."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from mooring.api.selectors import EVERYTHING, NOTHING, Requirement, Selector
from mooring.core.state import term_sums
from mooring.core.state.pod_info import AffinityTerm, PodClass
from mooring.core.state.term_sums import TermSum

names = st.sampled_from(["a", "b", "c"])
values = st.lists(names, min_size=1, max_size=2, unique=True).map(tuple)
requirements = st.builds(Requirement, names, st.sampled_from(["In", "NotIn"]), values) | st.builds(
    Requirement, names, st.sampled_from(["Exists", "DoesNotExist"])
)
selectors = st.just(NOTHING) | st.builds(Selector, st.lists(requirements, max_size=3).map(tuple))
terms = st.builds(
    AffinityTerm, names, selectors, st.frozensets(names, max_size=2), st.sampled_from([EVERYTHING, NOTHING]) | selectors
)
classes = st.builds(PodClass, names, st.dictionaries(names, names), st.just(False))


@given(st.lists(terms, min_size=1, max_size=5), st.lists(classes, max_size=6))
def test_a_sum_over_all_classes_is_the_sum_of_all_answers(of: list[AffinityTerm], kinds: list[PodClass]) -> None:
    total = TermSum(tuple(of))
    answers = [[term.matches(cls.namespace, cls.labels, {}) for term in of] for cls in kinds]
    for few in (0, 10**6):  # all together, and one by one
        with mock.patch.object(term_sums, "FEW", few):
            assert total.count_all(kinds) == [sum(each) for each in answers]
            assert total.hold_all(kinds) == [all(each) for each in answers]
    assert [total.count(cls) for cls in kinds] == [sum(each) for each in answers]
    assert [total.holds(cls) for cls in kinds] == [all(each) for each in answers]


@given(st.lists(st.tuples(terms, st.integers(1, 100)), min_size=1, max_size=5), st.lists(classes, max_size=6))
def test_a_term_counts_by_its_weight(of: list[tuple[AffinityTerm, int]], kinds: list[PodClass]) -> None:
    total = TermSum(tuple(term for term, _ in of), tuple(weight for _, weight in of))
    want = [sum(w for term, w in of if term.matches(cls.namespace, cls.labels, {})) for cls in kinds]
    for few in (0, 10**6):
        with mock.patch.object(term_sums, "FEW", few):
            assert total.count_all(kinds) == want
