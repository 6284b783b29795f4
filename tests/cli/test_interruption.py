"""Ctrl-C, SIGTERM and temporary files: everything is cleaned up, whichever way a command ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from mooring.cli.entry import main
from mooring.cli.options import kubeconfig_place
from mooring.cli.streams import Termination, interrupt


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["as usual", "ignored"])
def termination(request: pytest.FixtureRequest) -> Termination:
    """As a command begins, also one that was begun by ``nohup mooring … &`` in a script, and got Ctrl-C in vain."""
    signal.signal(signal.SIGINT, request.param)
    termination = Termination()
    if request.param is signal.SIG_IGN:
        signal.raise_signal(signal.SIGINT)
    return termination


@pytest.mark.usefixtures("termination")
def test_plain_code_is_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_sigterm_is_taken_as_ctrl_c_and_remembered(termination: Termination) -> None:
    assert not termination.has_come
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    assert termination.has_come


def test_ctrl_c_while_everything_is_still_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(MetaPathFinder):
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "mooring.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


@pytest.mark.usefixtures("termination")
def test_a_main_task_that_takes_being_cancelled_as_its_end_gives_its_result() -> None:
    async def main() -> str:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "a summary"

    assert asyncio.run(main()) == "a summary"


@pytest.mark.usefixtures("termination")
def test_an_event_loop_cancels_its_main_task_and_lets_it_clean_up() -> None:
    steps: list[str] = []

    async def main() -> None:
        try:
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            steps.append("cleaning")
            await asyncio.sleep(0)
            steps.append("clean")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert steps == ["cleaning", "clean"]


def test_a_temporary_kubeconfig_goes_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt), kubeconfig_place(None) as path:
        path.write_text("secret")
        assert path.parent.parent == tmp_path and path.parent.stat().st_mode & 0o077 == 0
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("was_there", [True, False])
def test_a_file_of_the_users_own_stays(was_there: bool, tmp_path: Path) -> None:
    wanted = tmp_path / "kubeconfig"
    if was_there:
        wanted.write_text("theirs")
    with kubeconfig_place(wanted) as path:
        assert path == wanted
        path.write_text("ours")
    assert wanted.exists() is was_there


def test_a_file_that_was_never_written_is_no_problem(tmp_path: Path) -> None:
    with kubeconfig_place(tmp_path / "never"):
        pass
