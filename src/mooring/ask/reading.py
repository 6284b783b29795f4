"""Clusters from files, and from a live API server."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mooring.api.errors import warn
from mooring.api.manifests import Manifests
from mooring.core.cluster import Cluster, Source, read_manifests


def load(*sources: Source) -> Cluster:
    """A cluster of the objects in these files, directories or patterns, in manifests or in what kubectl prints.

    ``kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json > dump.json`` writes a file that has what scheduling reads.
    Bytes are taken as the text of a manifest, a dict as a manifest. Objects of other kinds are passed over.
    """
    found = read_manifests(sources)
    warn(found.unknown_notes)
    cluster = Cluster().take_over(found.objects)
    cluster.release = found.release
    return cluster


def connect(kubeconfig: str = "", *, context: str = "") -> Cluster:
    """A live cluster as it is now. It is read once; nothing is written, and nothing is watched.

    Without arguments it is the cluster that kubectl would talk to.
    """
    found = _run(read_live(kubeconfig, context, "python"))
    cluster = Cluster().take_over(found.objects)
    cluster.release = found.release
    return cluster


async def read_live(kubeconfig: str, context: str, command: str) -> Manifests:
    """Everything that a scheduler would see of a live cluster; ``command`` is how the API server knows us."""
    from mooring.core.config.features import Features, nearest_version
    from mooring.live.informers import load_objects
    from mooring.net.kubeconfig import find_config
    from mooring.net.rest import RestClient, server_version, user_agent

    client = RestClient(find_config(kubeconfig, context=context), agent=user_agent("mooring", command))
    try:
        release = (await server_version(client)).release
        features = Features(nearest_version(release)[0])
        return Manifests(objects=await load_objects(client, features), server_release=release)
    finally:
        await client.close()


def _run(reading: Any) -> Any:
    """Run to the end, also in a notebook, where an event loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(reading)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, reading).result()
