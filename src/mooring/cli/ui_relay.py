"""``mooring ui --server``: the page of a scheduler that runs elsewhere, with the credentials of a kubeconfig."""

from __future__ import annotations

from mooring.cli.queue_source import Address, client_config
from mooring.cli.ui import serve_until_interrupted
from mooring.client.errors import Forbidden, NotFound
from mooring.client.rest import RestClient, user_agent
from mooring.errors import ApiError
from mooring.ui.relay import ANSWER_WITHIN_S, Relay


async def relay_and_serve(address: Address, port: int, opens: bool | None) -> None:
    """Serve what the scheduler serves, until Ctrl-C."""
    config = await client_config(address)
    async with RestClient(config, agent=user_agent("mooring", "ui"), timeout_s=ANSWER_WITHIN_S) as client:

        async def fetch(path: str) -> tuple[str, bytes]:
            try:
                answer = await client.get(path, limited=False)
            except NotFound:
                raise ApiError(f"{config.server} serves no page; start it with mooring run --ui") from None
            except Forbidden as error:
                raise ApiError(f"{error}; a ClusterRole with nonResourceURLs: [/ui, /ui/*] allows it") from None
            return answer.headers.get("content-type", "application/octet-stream"), answer.body

        await serve_until_interrupted([], port, opens, answers=Relay(fetch))
