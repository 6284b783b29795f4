"""``mooring start --example``: one pod finds its node, another learns what it lacks; nothing is started."""

from __future__ import annotations

from importlib import resources

from mooring.cli.output import console


def show_first_example() -> None:
    """Explain two pods on a small cluster that comes with mooring."""
    from mooring.api.core import Pod
    from mooring.api.manifests import parse_manifests
    from mooring.cli.explain import build_cluster
    from mooring.config.load import default_config
    from mooring.explanation.rendering import draw
    from mooring.explanation.why import explain_pod

    data = resources.files("mooring.cli") / "data"
    cluster = parse_manifests((data / "first-cluster.yaml").read_bytes(), "first-cluster.yaml")
    to = console()
    to.print("A cluster of 5 nodes in 2 zones; worker-4 is cordoned, gpu-1 takes only pods that tolerate its taint.")
    for name in ("first-pod.yaml", "second-pod.yaml"):
        pod = next(parse_manifests((data / name).read_bytes(), name, cluster).of(Pod))
        found = explain_pod(build_cluster(cluster, pod, default_config()), pod)
        to.print()
        draw(to, found, top=5, suggestions=4)
    to.print()
    to.print("Your own cluster: kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json > dump.json")
    to.print("                  mooring explain --cluster dump.json --pod web.yaml")
