"""``mooring start --example``: one pod finds its node, another learns what it lacks; nothing is started."""

from __future__ import annotations

import json
from importlib import resources

import click

from mooring.cli.output import console, plain


def show_first_example(output: str) -> None:
    """Explain two pods on a small cluster that comes with mooring; as JSON, in one line each."""
    from mooring.api import yaml
    from mooring.explanation.rendering import draw
    from mooring.surface.reading import load
    from mooring.surface.scheduler import Scheduler

    data = resources.files("mooring.cli") / "data"
    scheduler = Scheduler(load((data / "first-cluster.yaml").read_bytes()))
    pods = [yaml.load((data / name).read_bytes(), name) for name in ("first-pod.yaml", "second-pod.yaml")]
    if output == "json":
        for pod in pods:
            click.echo(json.dumps(plain(scheduler.explain(pod).to_dict()), ensure_ascii=False))
        return
    to = console()
    to.print("A cluster of 5 nodes in 2 zones; worker-4 is cordoned, gpu-1 takes only pods that tolerate its taint.")
    for pod in pods:
        to.print()
        draw(to, scheduler.explain(pod), top=5, suggestions=4)
    to.print()
    to.print("Your own cluster: kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json > dump.json")
    to.print("                  mooring explain --cluster dump.json --pod web.yaml")
