"""Members of pod groups: copies do not see each other's changes, and a change does not copy the group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.core.state.cluster import GroupMembers
from mooring.core.state.pod_info import PodInfo, PodInterner
from mooring.testing import make_pod

GROUPS = ("g", "h")
PODS: list[PodInfo] = [PodInterner().info(make_pod(f"{group}{i}", group=group)) for group in GROUPS for i in range(3)]

steps = st.tuples(
    st.sampled_from(["note", "forget", "place", "displace", "copy"]), st.sampled_from(PODS), st.integers(0)
)


@given(st.lists(steps, max_size=40))
def test_copies_are_apart(story: list[tuple[str, PodInfo, int]]) -> None:
    copies: list[tuple[GroupMembers, dict[str, PodInfo], dict[str, PodInfo]]] = [(GroupMembers(), {}, {})]
    for action, pod, choice in story:
        members, known, placed = copies[choice % len(copies)]
        match action:
            case "note":
                members.note(pod.pod)
                known[pod.uid] = pod
            case "forget":
                members.forget(pod.pod)
                known.pop(pod.uid, None)
            case "place":
                members.place(pod)
                placed[pod.uid] = pod
            case "displace":
                members.displace(pod)
                placed.pop(pod.uid, None)
            case _:
                copies.append((members.copy(), dict(known), dict(placed)))
    for members, known, placed in copies:
        assert members.has_placed == bool(placed)
        for group in GROUPS:
            ours = {pod.uid for pod in PODS if pod.pod.metadata.name.startswith(group)}
            assert list(members.placed(f"default/{group}")) == [uid for uid in placed if uid in ours]
            unplaced = [uid for uid in known if uid in ours and uid not in placed]
            assert [pod.uid for pod in members.unplaced(f"default/{group}")] == unplaced
            assert members.count(f"default/{group}") == len(ours & (known.keys() | placed.keys()))


def test_a_group_is_not_copied_for_each_pod_that_comes() -> None:
    members = GroupMembers()
    members.place(PODS[0])
    before = members.placed("default/g")
    members.place(PODS[1])
    members.displace(PODS[0])
    assert members.placed("default/g") is before
    members.copy()
    members.place(PODS[2])
    assert members.placed("default/g") is not before and list(before) == [PODS[1].uid]
