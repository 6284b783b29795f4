"""``mooring ui --kubeconfig``: the page on a live cluster, which is only read: get, list and watch."""

from __future__ import annotations

import time

from mooring.cli.configuration import features_for, load_configuration
from mooring.cli.ui import serve_until_interrupted
from mooring.cli.watched_cluster import SYNC_S, watched
from mooring.client.kubeconfig import find_config
from mooring.client.rest import RestClient, user_agent
from mooring.client.server_version import server_version
from mooring.record.watching import WatchRecorder
from mooring.ui.shown import Shown
from mooring.ui.source import TapeSource


async def watch_and_serve(kubeconfig: str, port: int, opens: bool | None) -> None:
    """Watch a cluster and show what happens in it, until Ctrl-C."""
    source = TapeSource()
    async with RestClient(find_config(kubeconfig), agent=user_agent("mooring", "ui")) as client:
        release = (await server_version(client, timeout_s=SYNC_S)).release
        features = features_for(None, release)
        recorder = WatchRecorder(source.tape, load_configuration(None, (), features), features, time.time)
        async with watched(client, recorder):
            await serve_until_interrupted([Shown(kubeconfig, source)], port, opens)
