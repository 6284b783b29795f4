"""Which version of Kubernetes to be: what the API server says, before anything is built."""

from __future__ import annotations

import asyncio

from mooring.client.rest import RestClient, user_agent
from mooring.client.server_version import server_version
from mooring.config.versions import nearest_version
from mooring.errors import ApiError
from mooring.observe.logs import get_logger
from mooring.scheduler.settings import Settings, asked_version, load_settings

log = get_logger("mooring.scheduler")

TIMEOUT_S = 10.0


async def for_cluster(settings: Settings, timeout_s: float = TIMEOUT_S) -> Settings:
    """The settings for the cluster's version, or the nearest; as they are, if the flags ask for a version.

    A server that does not say its version in time leaves the default one, with a warning.
    """
    if asked_version(settings.flags) is not None:
        return settings
    client = RestClient(settings.client_config(), agent=user_agent("mooring", "scheduler"))
    try:
        async with asyncio.timeout(timeout_s):
            release = (await server_version(client)).release
    except (ApiError, OSError, TimeoutError) as error:
        log.warning(
            "The API server does not say its version; --kubernetes-version can say it",
            deciding_as=str(settings.features.version),
            error=str(error) or "no answer",
        )
        return settings
    finally:
        await client.close()
    version, warning = nearest_version(release)
    if warning:
        log.warning(f"{warning[0].upper()}{warning[1:]}")
    return settings if version is settings.features.version else load_settings(settings.flags, version)
