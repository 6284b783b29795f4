"""The environment: what gymnasium expects of one, and that its mask, its time and its rewards are the scheduler's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from mooring.api.errors import InputError, UsageError
from mooring.core.plugins.gpus.columns import GpuColumns
from mooring.core.plugins.gpus.fragmentation import Fragmentation, count_kinds, typical_pods
from mooring.core.plugins.gpus.openb import kind_of
from mooring.core.plugins.gpus.requests import COUNT, INDEX, MILLI
from mooring.core.plugins.gpus.scoring import cpu_left
from mooring.record.recorder import Recorder
from mooring.sim.gym import Episode, LinearPolicy, SchedulingEnv, from_files, from_record, generated, vector_env
from mooring.sim.gym.environment import GPU_CONFIG
from mooring.sim.gym.features import NODE_FEATURES, POD_FEATURES, node_features
from mooring.sim.gym.policy import SIZE, LearnedScore
from mooring.sim.simulate import Arrival as SimulatedArrival
from mooring.sim.simulate import simulate
from mooring.sim.workload import Arrival
from mooring.testing import make_cluster, make_handle, make_node, make_pod, scores

TERMS = ("allocation", "fragmentation", "waiting", "preemption", "spread", "cost")


def gpu_pod(name: str, milli: int = 500, **more: Any) -> Any:
    return make_pod(name, cpu="1", metadata={"annotations": {MILLI: str(milli)}}, **more)


def gpu_node(name: str, gpus: int = 1, cpu: str = "8") -> Any:
    return make_node(name, cpu=cpu, allocatable={COUNT: str(gpus)})


def env_of(episode: Episode, **more: Any) -> SchedulingEnv:
    env = SchedulingEnv(lambda rng: episode, **more)
    env.reset(seed=1)
    return env


@pytest.mark.parametrize("action", ["node", "weights"])
def test_gymnasium_finds_nothing_wrong(action: Any) -> None:
    env = SchedulingEnv(generated(nodes=6, pods=20, gpus=2), action=action, reward=dict.fromkeys(TERMS, 1.0))
    check_env(env, skip_render_check=True)


def played(env: SchedulingEnv, seed: int) -> list[Any]:
    """Everything that an episode shows, with the first allowed action in each step."""
    seen, info = env.reset(seed=seed)
    found, is_over = [seen["nodes"].tolist()], False
    while not is_over:
        seen, reward, is_over, _, info = env.step(int(info["action_mask"].argmax()))
        found.append((seen["nodes"].tolist(), seen["pod"].tolist(), reward))
    return found


def test_the_same_seed_is_the_same_episode() -> None:
    env = SchedulingEnv(generated(nodes=5, pods=15), reward=dict.fromkeys(TERMS, 1.0))
    assert played(env, 1) == played(env, 1) != played(env, 2)


# ---- actions -------------------------------------------------------------------------------------------------------


def test_the_mask_is_what_the_filters_say() -> None:
    nodes = [gpu_node("a"), make_node("b"), gpu_node("c"), make_node("d", unschedulable=True)]
    nodes[2].spec.unschedulable = True
    env = env_of(Episode(nodes, [Arrival(0, gpu_pod("p"))]), max_nodes=6)
    assert env.action_masks().tolist() == [True, False, False, False, False, False]
    assert env.reset(seed=1)[1]["action_mask"].tolist() == [1, 0, 0, 0, 0, 0]


def test_a_pod_is_placed_with_its_gpu() -> None:
    env = env_of(Episode([gpu_node("a", 2)], [Arrival(0, gpu_pod("p")), Arrival(1, gpu_pod("q"))]))
    _, reward, is_over, _, info = env.step(0)
    placed = env.world.cluster.pod("uid-default-p")
    assert placed is not None and placed.pod.metadata.annotations[INDEX] == "0"
    assert reward == 25.0 and not is_over and info["allocated"] == 25.0
    assert env.step(0)[2]


def test_an_action_that_the_mask_forbids_leaves_the_pod_without_a_node() -> None:
    env = env_of(Episode([gpu_node("a"), make_node("b")], [Arrival(0, gpu_pod("p"))]))
    _, reward, is_over, _, info = env.step(1)
    assert (reward, is_over, info["placed"], info["refused"]) == (0.0, True, 0, 1)


def test_after_the_end_a_reset_is_needed() -> None:
    env = env_of(Episode([gpu_node("a")], [Arrival(0, gpu_pod("p"))]))
    env.step(0)
    with pytest.raises(UsageError, match="call reset"):
        env.step(0)


def test_weights_let_the_score_plugins_choose() -> None:
    nodes = [gpu_node("full", cpu="4"), gpu_node("empty", cpu="64")]
    running = make_pod("x", cpu="2", node="full")
    env = env_of(Episode([*nodes, running], [Arrival(0, gpu_pod("p"))]), action="weights")
    only = np.array([name == "NodeResourcesFit" for name in env.score_plugins], np.float32)
    env.step(only)  # prefers nodes with much left
    placed = env.world.cluster.pod("uid-default-p")
    assert placed is not None and placed.pod.spec.node_name == "empty"


# ---- time ----------------------------------------------------------------------------------------------------------


def test_a_pod_that_fits_nowhere_waits_until_another_ends() -> None:
    arrivals = [Arrival(0, gpu_pod("p", 1000), run_s=7200), Arrival(3600, gpu_pod("q", 1000))]
    env = env_of(Episode([gpu_node("a")], arrivals), reward={"waiting": 1})
    _, reward, is_over, _, _ = env.step(0)
    assert reward == -1.0 and not is_over and env.world.clock.now() == 7200
    assert env.step(0)[2]


def test_a_pod_of_higher_priority_evicts_another() -> None:
    arrivals = [
        Arrival(0, gpu_pod("low", 1000, priority=0)),
        Arrival(1, gpu_pod("high", 1000, priority=10)),
    ]
    env = env_of(Episode([gpu_node("a")], arrivals), reward={"preemption": 1})
    assert env.step(0)[1] == -1.0
    assert env.world.pod is not None and env.world.pod.pod.name == "high"


def test_a_pod_that_comes_twice_is_another_pod() -> None:
    pod = gpu_pod("p", 300)
    env = env_of(Episode([gpu_node("a")], [Arrival(0, pod), Arrival(1, pod), Arrival(2, pod)]))
    env.step(0)
    env.step(0)
    assert env.step(0)[4]["placed"] == 3


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param("spread", lambda first, second: first < 0 < second, id="the second pod evens out the first"),
        pytest.param("cost", lambda first, second: first == -50.0 and second == 0, id="half of the nodes for an hour"),
    ],
)
def test_rewards(term: str, want: Any) -> None:
    nodes = [gpu_node("a"), gpu_node("b")]
    arrivals = [Arrival(0, gpu_pod("p")), Arrival(3600, gpu_pod("q"))]
    env = env_of(Episode(nodes, arrivals), reward={term: 1})
    assert want(env.step(0)[1], env.step(1)[1])


def test_the_fragmentation_term_is_the_change_of_the_measure_for_the_episodes_pods() -> None:
    env = SchedulingEnv(generated(nodes=8, pods=60, gpus=2, run_s=30.0), reward={"fragmentation": 1})
    rng = np.random.default_rng(2)
    env.reset(seed=4)
    typical = typical_pods(count_kinds(kind_of(pod) for pod in env.world.pods()))

    def level(env: SchedulingEnv) -> float:
        nodes, gpus = env.world.cluster.nodes(), GpuColumns.of(env.world.cluster.table)
        found = Fragmentation(typical, gpus.models).of(gpus.left, cpu_left(nodes), gpus.model)
        return -100 * float(found.sum()) / (8 * 2 * 1000)

    for _ in range(30):
        before, other = level(env), env.clone()
        action = rng.choice(np.flatnonzero(env.action_masks()))
        reward = env.step(action)[1]
        assert reward == pytest.approx(level(env) - before)
        assert other.step(action)[1] == reward


def test_a_reward_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(UsageError, match="no term 'alocation'; did you mean allocation"):
        SchedulingEnv(generated(nodes=2, pods=2), reward={"alocation": 1})


# ---- copies --------------------------------------------------------------------------------------------------------


def test_a_clone_is_independent() -> None:
    env = SchedulingEnv(generated(nodes=4, pods=12, run_s=5), reward=dict.fromkeys(TERMS, 1.0))
    env.reset(seed=3)
    env.step(int(env.action_masks().argmax()))
    clone = env.clone()

    def rest(one: SchedulingEnv) -> list[Any]:
        found, is_over = [], False
        while not is_over:
            seen, reward, is_over, _, info = one.step(int(one.action_masks().argmax()))
            found.append((seen["nodes"].tolist(), round(reward, 9), info["placed"]))
        return found

    assert rest(clone) == rest(env)


def test_several_environments_are_one_that_declares_how_it_resets() -> None:
    together = vector_env(lambda: SchedulingEnv(generated(nodes=3, pods=4)), 2)
    assert together.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    _, info = together.reset(seed=1)
    for _ in range(6):
        _, rewards, _, _, info = together.step(info["action_mask"].argmax(axis=1))
    assert rewards.shape == (2,) and info["action_mask"].shape == (2, 3)
    together.close()


# ---- episodes ------------------------------------------------------------------------------------------------------


def test_episodes_are_drawn_from_a_trace(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},64000,262144,2,T4\n" for i in range(5))
    )
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
    lines = [f"p{i},1000,1024,1,500,{10 * i},{10 * i + 100},{10 * i + 1}\n" for i in range(20)]
    (tmp_path / "pods.csv").write_text(header + "".join(lines))
    draw = from_files(tmp_path / "nodes.csv", tmp_path / "pods.csv", pods=6, nodes=3)
    first, second = draw(np.random.default_rng(1)), draw(np.random.default_rng(1))
    assert len(first.objects) == 3 and len(first.arrivals) == 6 and first.arrivals[0].at_s == 0
    assert [each.pod.name for each in first.arrivals] == [each.pod.name for each in second.arrivals]
    env = SchedulingEnv(draw)
    assert len(played(env, 1)) == 7


def test_files_without_nodes_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "pods.csv"
    file.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,500\n")
    with pytest.raises(InputError, match="no nodes"):
        from_files(file)


# ---- what was learned ----------------------------------------------------------------------------------------------


def policy_for(feature: str, weight: float) -> LinearPolicy:
    weights = np.zeros(SIZE)
    weights[NODE_FEATURES.index(feature)] = weight
    return LinearPolicy(weights)


def test_a_policy_chooses_as_the_plugin_scores(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    LinearPolicy(rng.normal(size=SIZE)).save(tmp_path / "policy.json")
    policy = LinearPolicy.load(tmp_path / "policy.json")
    env = SchedulingEnv(generated(nodes=8, pods=30))
    seen, info = env.reset(seed=2)
    plugin = LearnedScore({"policy": str(tmp_path / "policy.json")}, make_handle(env.world.cluster))
    for _ in range(20):
        chosen = policy.action(seen, info["action_mask"])
        world = env.world
        assert world.pod is not None
        names = [world.cluster.table.infos[row].name for row in world.rows.tolist()]
        found = scores(plugin, world.cluster, world.pod.pod, names)
        assert found is not None and found[world.cluster.table.infos[chosen].name] == max(found.values())
        seen, _, _, _, info = env.step(chosen)


def test_the_plugin_scores_from_0_to_100(tmp_path: Path) -> None:
    policy_for("cpu free of the largest", -1).save(tmp_path / "policy.json")
    cluster = make_cluster(make_node("small", cpu="4"), make_node("large", cpu="64"), make_node("middle", cpu="34"))
    plugin = LearnedScore({"policy": str(tmp_path / "policy.json")}, make_handle(cluster))
    assert scores(plugin, cluster, make_pod()) == {"large": 0, "middle": 50, "small": 100}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(None, "No such file", id="no file"),
        pytest.param("{", "not a policy", id="not JSON"),
        pytest.param('{"weights": [1], "nodeFeatures": ["x"], "podFeatures": []}', "other features", id="another one"),
    ],
)
def test_a_wrong_policy_is_one_line(tmp_path: Path, text: str | None, want: str) -> None:
    file = tmp_path / "policy.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=want):
        LinearPolicy.load(file)


def test_numbers_are_from_0_to_1_however_large_a_node_is() -> None:
    env = env_of(
        Episode([make_node("a", cpu="4000", memory="90Ti", allocatable={COUNT: "64"})], [Arrival(0, gpu_pod("p"))])
    )
    seen, _ = env.reset(seed=1)
    assert env.observation_space.contains(seen) and seen["pod"].shape == (len(POD_FEATURES),)


def test_what_is_seen_is_the_same_as_if_every_node_were_looked_at_again() -> None:
    env, rng = SchedulingEnv(generated(nodes=5, pods=60, load=9.0, run_s=8.0)), np.random.default_rng(3)
    seen, info = env.reset(seed=3)
    is_over = False
    while not is_over:
        seen, _, is_over, _, info = env.step(rng.choice(np.flatnonzero(info["action_mask"])))
        cluster = env.world.cluster
        assert (seen["nodes"] == node_features(cluster.snapshot(), cluster.table)).all()


def test_episodes_are_drawn_from_a_record(tmp_path: Path) -> None:
    recorder = Recorder.to_file(tmp_path / "run.rec", source="simulation")
    arrivals = [
        SimulatedArrival(0, gpu_pod("p", 1000), run_s=60),
        SimulatedArrival(10, gpu_pod("q", 1000)),
        SimulatedArrival(20, gpu_pod("r", 1000)),
    ]
    simulate([gpu_node("a"), gpu_node("b")], arrivals, config=GPU_CONFIG, observers=[recorder])
    recorder.close()
    episode = from_record(tmp_path / "run.rec")(np.random.default_rng(1))
    came = {each.pod.name: (round(each.at_s), each.run_s and round(each.run_s)) for each in episode.arrivals}
    assert came == {"p": (0, 60), "q": (10, None), "r": (20, None)}
    assert sorted(obj.name for obj in episode.objects if type(obj).__name__ == "Node") == ["a", "b"]
    env = env_of(episode)
    assert env.step(0)[1] == 50.0  # the record has kept the annotations that say what a pod asks for
