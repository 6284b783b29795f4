"""The page of a running scheduler, among its endpoints: it shows the record that the scheduler writes.

The endpoints have asked who it is and whether that user may look before anything here is called. Nothing can be
changed, and nothing is read until somebody looks. Reading and explaining are done in threads of their own: the loop of
the endpoints has a lease to renew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from mooring.http_server.http_io import Request, Response
from mooring.surface.scheduler import PluginReference
from mooring.ui.answers import HEADERS, PageAnswers, problem
from mooring.ui.bundle import page_files
from mooring.ui.shown import Shown
from mooring.ui.source import RecordFile


class MountedPage:
    """Answers requests below a path of another server. Made before the record is; UsageError where there is no page."""

    def __init__(self, record: str | Path, title: str, plugins: Iterable[PluginReference] = ()) -> None:
        self._files = page_files()
        self._record, self._title, self._plugins = record, title, tuple(plugins)
        self._answers: PageAnswers | None = None
        self._opening = asyncio.Lock()

    async def answer(self, request: Request, path: str) -> Response:
        """Answer a user who may look; ``path`` begins with a slash."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            refusal = problem(403, "requests from other sites are refused")
            refusal.headers.update(HEADERS)
            return refusal
        async with self._opening:
            if self._answers is None:
                shown = await asyncio.to_thread(self._open)
                self._answers = PageAnswers([shown], files=self._files)
                await self._answers.start()
        return await self._answers.answer(request, path)

    def _open(self) -> Shown:
        shown = Shown(self._title, RecordFile(self._record, self._plugins, is_endless=True))
        shown.describe()
        return shown

    def close(self) -> None:
        """Let go of files and threads; called when nothing is served any more."""
        if self._answers is not None:
            self._answers.close()
