"""The heap of pods: order, removal, and no growth from removed entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.queue.sub_queues import PodHeap


def test_equal_orders_go_by_sequence(info):
    heap = PodHeap()
    for sequence, name in [(3, "c"), (1, "a"), (2, "b")]:
        heap.put((0,), QueuedPodInfo(info(name), 0.0, sequence))
    assert [heap.pop().key for _ in range(3)] == ["default/a", "default/b", "default/c"]
    assert heap.pop() is None


def test_putting_again_moves_a_pod(info):
    heap = PodHeap()
    a, b = QueuedPodInfo(info("a"), 0.0, 1), QueuedPodInfo(info("b"), 0.0, 2)
    heap.put(1, a)
    heap.put(2, b)
    heap.put(3, a)
    assert len(heap) == 2
    assert [heap.pop(), heap.pop(), heap.pop()] == [b, a, None]


def test_removed_entries_do_not_pile_up(info):
    heap = PodHeap()
    pod = QueuedPodInfo(info("a"), 0.0, 1)
    for order in range(10_000):
        heap.put(-order, pod)
        heap.remove(pod.key)
    assert len(heap) == 0
    assert len(heap._entries) < 200


@given(st.lists(st.tuples(st.sampled_from(["put", "remove", "pop"]), st.integers(0, 5), st.integers(0, 9))))
def test_it_behaves_like_a_sorted_list(steps):
    from mooring.api.core import Pod
    from mooring.api.meta import ObjectMeta
    from mooring.core.state.pod_info import PodInterner

    interner = PodInterner()
    pods = [
        QueuedPodInfo(interner.info(Pod(metadata=ObjectMeta(name=str(i), namespace="n"))), 0.0, i) for i in range(6)
    ]
    heap, model = PodHeap(), {}
    for action, which, order in steps:
        pod = pods[which]
        if action == "put":
            heap.put(order, pod)
            model[which] = order
        elif action == "remove":
            assert (heap.remove(pod.key) is pod) == (model.pop(which, None) is not None)
        else:
            want = min(model, key=lambda each: (model[each], each), default=None)
            got = heap.pop()
            assert got is (None if want is None else pods[want])
            model.pop(want, None)
        assert len(heap) == len(model)
