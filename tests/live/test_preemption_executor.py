"""Evictions: which calls are made in which order, and when the preemptor may be retried."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.core import Pod, PodStatus
from mooring.api.meta import ObjectMeta
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.versions import VERSIONS
from mooring.core.state.cluster import ClusterState
from mooring.live import preemption as preemption_executor
from mooring.live.context import SchedulerContext, SchedulerOptions
from mooring.live.observer import Observers
from mooring.live.preemption import PreemptionExecutor, RunningPreemption
from mooring.live.waiting_pods import WaitingPodsMap
from mooring.net.errors import NotFound, ServerError


def make(name, priority=0, nominated="", terminating=False):
    meta = ObjectMeta(name=name, namespace="d", uid=f"uid-{name}", deletion_timestamp="now" if terminating else None)
    pod = Pod(metadata=meta, status=PodStatus(nominated_node_name=nominated))
    pod.spec.priority = priority
    pod.spec.scheduler_name = "default-scheduler"
    return ClusterState().info(pod)


def preemption():
    return RunningPreemption("DefaultPreemption", make("preemptor", 100).pod, "a")


GATE = (preemption().plugin, preemption().preemptor.key)


class Stage:
    """An executor with everything around it made of paper."""

    def __init__(self, *victims, failures=None, nominated=(), gated=False, features=DEFAULT_FEATURES):
        self.sent, self.events, self.activated, self.tasks = [], [], [], []
        self.failures = failures or {}
        self.set_back = []
        self.unplaced = set()
        self.pods = {victim.pod.key: victim.pod for victim in victims}
        self.waiting = WaitingPodsMap()
        self.victims = victims
        self.opened = []
        preemptor = preemption().preemptor
        waiting = SimpleNamespace(uid=preemptor.uid, gating_plugin="DefaultPreemption" if gated else "")
        context = SchedulerContext(
            SchedulerOptions(clock=VirtualClock(0), features=features),
            self,
            SimpleNamespace(record=lambda about, **more: self.events.append((about.name, more["note"]))),
            Observers(),
            self.pods,
            waiting_pods=self.waiting,
        )
        nominations = SimpleNamespace(nominated_pods=lambda node: nominated)
        context.session = SimpleNamespace(state=SimpleNamespace(pod=self.running), nominations=nominations)
        context.tasks = SimpleNamespace(spawn=lambda work: self.tasks.append(asyncio.ensure_future(work)))
        context.queue = SimpleNamespace(
            activate=lambda pods: self.activated.extend(pod.name for pod in pods),
            set_back=lambda pod: self.set_back.append(pod.name),
            get=lambda key: waiting,
            opened=lambda *gate: self.opened.append(gate),
        )
        self.executor = PreemptionExecutor(context)

    def running(self, uid):
        """The pod of this uid, if it runs or is being bound."""
        return next((pod for pod in self.pods.values() if pod.uid == uid and uid not in self.unplaced), None)

    @property
    def is_held_back(self):
        return self.executor.holds_back(*GATE)

    async def patch_pod_status(self, namespace, name, patch):
        await self._send("patch", name)

    async def delete_pod(self, pod):
        await self._send("delete", pod.name)

    async def _send(self, verb, name):
        self.sent.append((verb, name))
        await asyncio.sleep(0)
        failure = self.failures.get((verb, name))
        if failure is not None:
            raise failure

    async def run(self):
        self.executor.start(preemption(), self.victims)
        await asyncio.gather(*self.tasks)


async def test_the_last_victim_is_evicted_last_and_each_is_reported():
    stage = Stage(make("one"), make("two"), make("three"))
    await stage.run()
    assert stage.sent[-2:] == [("patch", "three"), ("delete", "three")]
    assert {name for _, name in stage.sent[:-2]} == {"one", "two"}
    assert [name for name, _ in stage.events][-1] == "three"
    assert stage.events[0][1] == "Preempted by pod uid-preemptor on node a"
    assert stage.activated == []


async def test_victims_that_are_going_already_are_left_alone():
    stage = Stage(make("one", terminating=True))
    await stage.run()
    assert stage.sent == [] and stage.tasks == []


@pytest.mark.parametrize(
    ("verb", "sent"),
    [pytest.param("patch", 1, id="at the patch"), pytest.param("delete", 2, id="at the delete")],
)
async def test_a_victim_that_is_gone_is_no_failure_and_no_event(verb, sent):
    stage = Stage(make("one"), failures={(verb, "one"): NotFound("gone", code=404)})
    await stage.run()
    assert (len(stage.sent), stage.events, stage.activated) == (sent, [], [])


async def test_a_namesake_of_a_victim_is_left_alone():
    stage = Stage(make("one"))
    stage.pods["d/one"] = Pod(metadata=ObjectMeta(name="one", namespace="d", uid="another"))
    await stage.run()
    assert (stage.sent, stage.events, stage.activated) == ([], [], [])


async def test_a_failure_spares_the_last_victim_and_brings_the_preemptor_back():
    stage = Stage(make("one"), make("two"), failures={("delete", "one"): ServerError("x", code=500)})
    await stage.run()
    assert {name for _, name in stage.sent} == {"one"}
    assert stage.activated == ["preemptor"]


@pytest.mark.parametrize("name", ["one", "two"])
async def test_an_eviction_that_breaks_sets_the_preemptor_back(name):
    stage = Stage(make("one"), make("two"), failures={("delete", name): RuntimeError("our own mistake")})
    await stage.run()
    assert (stage.set_back, stage.activated) == (["preemptor"], []), "an immediate retry would have the same result"
    assert not stage.executor.is_running("uid-preemptor")
    assert not stage.is_held_back


async def test_nominations_of_less_important_pods_are_taken_back_first():
    stage = Stage(make("one"), nominated=[make("low", 1, "a"), make("equal", 100, "a"), make("told", 1)])
    await stage.run()
    assert stage.sent[0] == ("patch", "low")
    assert {name for _, name in stage.sent} == {"low", "one"}


async def test_the_preemptor_waits_until_the_last_victim_is_seen_to_go():
    stage = Stage(make("one"), make("two"))
    stage.executor.start(preemption(), stage.victims)
    assert stage.executor.is_running("uid-preemptor")
    assert stage.is_held_back
    for _ in range(50):
        if ("patch", "two") in stage.sent:
            break
        await asyncio.sleep(0)
    assert ("patch", "two") in stage.sent
    assert stage.executor.is_running("uid-preemptor")
    assert stage.is_held_back, "no event can let it through yet"
    stage.executor.victim_goes("d/one")
    assert stage.is_held_back and stage.opened == []
    del stage.pods["d/two"]
    stage.executor.victim_goes("d/two")
    assert not stage.is_held_back and stage.opened == [GATE], "from here on one can"
    assert not stage.executor.is_running("uid-preemptor")
    await asyncio.gather(*stage.tasks)
    assert not stage.executor.is_running("uid-preemptor")


@pytest.mark.parametrize("is_seen", [True, False], ids=["until the watch shows it", "not for ever"])
async def test_the_preemptor_waits_for_a_watch_that_is_behind_the_answer(monkeypatch, is_seen):
    stage = Stage(make("one"))
    monkeypatch.setattr(preemption_executor, "BEHIND_S", 600.0 if is_seen else 0.0)
    await stage.run()
    assert not stage.executor.is_running("uid-preemptor")
    if is_seen:
        assert stage.is_held_back, "tried now, it would choose other victims"
        stage.executor.victim_goes("d/one")
    else:
        for _ in range(1000):
            await asyncio.sleep(0)
    assert not stage.is_held_back


async def test_after_a_failure_no_pod_waits_for_the_watch():
    stage = Stage(make("one"), failures={("delete", "one"): ServerError("x", code=500)})
    await stage.run()
    assert not stage.is_held_back


@pytest.mark.parametrize(
    ("gone", "is_placed", "gated", "activated"),
    [
        pytest.param(True, False, True, ["preemptor"], id="nothing else will wake it"),
        pytest.param(True, False, False, [], id="it was woken in time"),
        pytest.param(False, True, True, [], id="the victim's end will wake it"),
        pytest.param(False, False, True, ["preemptor"], id="the victim is there, and could not be bound"),
    ],
)
async def test_a_preemptor_whose_victims_went_too_early_is_tried_again(gone, is_placed, gated, activated):
    stage = Stage(make("one"), gated=gated)
    stage.unplaced = set() if is_placed else {"uid-one"}
    if gone:
        stage.pods.clear()
    await stage.run()
    assert stage.activated == activated


@pytest.mark.parametrize(
    ("wakes", "activated"), [pytest.param(False, [], id="1.36"), pytest.param(True, ["preemptor"], id="1.37")]
)
async def test_a_victim_that_waits_on_permit_is_stopped_in_memory(wakes, activated):
    """Nothing is deleted, so that no event wakes the preemptor: since 1.37 it is retried immediately."""
    victim = make("one")
    stage = Stage(victim, features=Features(VERSIONS["1.37" if wakes else "1.36"]))
    waiting = stage.waiting.add(victim, "a", {"P": 60.0})
    await stage.run()
    assert stage.sent == []
    assert stage.events[0][1].endswith("on node a (in kube-scheduler memory).")
    assert (await waiting.verdict()).message == "preempted"
    assert stage.activated == activated


# ---- without the gate SchedulerAsyncPreemption -----------------------------------------------------------------------


async def test_without_the_gate_all_victims_go_before_the_attempt_ends():
    stage = Stage(make("one"), make("two"), make("going", terminating=True), nominated=(make("less", 1, "a"),))
    assert await stage.executor.evict_now(preemption(), stage.victims) is None
    assert sorted(stage.sent[:-1]) == [("delete", "one"), ("delete", "two"), ("patch", "one"), ("patch", "two")]
    assert stage.sent[-1] == ("patch", "less"), "promises are taken back after the evictions"
    assert not stage.executor.is_running("uid-preemptor")
    assert stage.tasks == stage.activated == []


async def test_without_the_gate_a_refused_eviction_is_the_attempts_failure():
    forbidden = ServerError("pods is forbidden", code=403)
    stage = Stage(make("one"), make("two"), failures={("delete", "one"): forbidden}, nominated=(make("less", 1, "a"),))
    assert await stage.executor.evict_now(preemption(), stage.victims) is forbidden
    assert ("patch", "less") not in stage.sent


async def test_without_the_gate_a_victim_that_is_gone_is_no_failure():
    stage = Stage(make("one"), failures={("delete", "one"): NotFound("gone", code=404)})
    assert await stage.executor.evict_now(preemption(), stage.victims) is None
