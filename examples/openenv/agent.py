"""An agent that places pods through OpenEnv, over HTTP as any agent would, and how far it gets.

    python examples/openenv/agent.py
    python examples/openenv/agent.py --url http://127.0.0.1:8000   # an environment that runs elsewhere

It packs: the feasible node with the least free GPU, then the least free CPU. A language model would be asked
with the same observation.
"""

from __future__ import annotations

import argparse
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mooring.sim.gym import generated

EPISODES = generated(nodes=12, pods=150, gpus=4, cores=44, load=1.3)
Agent = Callable[[dict[str, Any]], str]


def pack(seen: dict[str, Any]) -> str:
    """The fullest node that takes the pod."""
    nodes = seen["nodes"]
    return str(min(nodes, key=lambda node: (sum(node["freeGpuMilli"]), int(node["freeCpu"].rstrip("m") or 0)))["name"])


def as_suggested(seen: dict[str, Any]) -> str:
    """The node that kube-scheduler's own plugins choose."""
    return str(seen["suggested"])


def play(url: str, agent: Agent, seed: int) -> dict[str, Any]:
    """One episode; the last observation."""
    from openenv.core.generic_client import GenericEnvClient

    with GenericEnvClient(base_url=url).sync() as env:
        result = env.reset(seed=seed)
        while not result.done:
            result = env.step({"node": agent(result.observation)})
        return dict(result.observation)


@contextmanager
def served() -> Iterator[str]:
    """An environment in this process."""
    import uvicorn

    from mooring.sim.gym.openenv import make_app

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # OpenEnv's server logs an error when a client closes its connection.
    server = uvicorn.Server(uvicorn.Config(make_app(EPISODES), host="127.0.0.1", port=port, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--url", default="", help="an OpenEnv environment; without it one is started")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    with served() if not given.url else _at(given.url) as url:
        for name, agent in (("kube-scheduler", as_suggested), ("pack", pack)):
            end = play(url, agent, given.seed)
            print(f"{name:15} {end['placed']} pods placed, {end['allocated']:.1f} % of the GPUs allocated")


@contextmanager
def _at(url: str) -> Iterator[str]:
    yield url


if __name__ == "__main__":
    main()
