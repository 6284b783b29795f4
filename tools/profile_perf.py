"""Where the time of a workload of `mooring bench perf` goes: a flame graph, and whose time it is.

    python -m tools.profile_perf SchedulingBasic/5000Nodes_10000Pods --svg flame.svg

Only the measured part is looked at, not the filling of the cluster before it. With py-spy installed it looks from
outside. Otherwise, or with ``--with own``, a timer looks at the stack 250 times per second of CPU time. A stack belongs
to the part of its innermost frame that has one; the work of the embedded API server is counted by the kind of request.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from mooring.bench.perf import plot as svg
from mooring.bench.perf import runner
from mooring.bench.perf.definitions import PerfWorkload, load
from mooring.bench.workloads import DIRECTORY

RATE_HZ = 250
ATTACH_S, STOP_S = 10.0, 30.0
_PR_SET_PTRACER = 0x59616D61
Stacks = dict[str, int]
"""Frames from the outermost to the innermost, joined by ``;`` and each ``function (file)``, and how often seen."""


class StackSampler:
    """Looks at the main thread whenever so much CPU time has gone. It sees Python frames only, and costs a few %."""

    name = "own sampler"

    def __init__(self, rate_hz: int = RATE_HZ) -> None:
        self._interval_s = 1.0 / rate_hz
        self._seen: Counter[tuple[Any, ...]] = Counter()
        self._old: Any = None

    def start(self) -> None:
        self._old = signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, self._interval_s, self._interval_s)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, self._old if self._old is not None else signal.SIG_DFL)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        codes = []
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        self._seen[tuple(codes)] += 1

    def stacks(self) -> Stacks:
        found: Stacks = {}
        for codes, count in self._seen.items():
            joined = ";".join(f"{code.co_name} ({_short(code.co_filename)})" for code in reversed(codes))
            found[joined] = found.get(joined, 0) + count
        return found


class PySpy:
    """Has py-spy look at this process from outside: exact, and at no cost to what is measured but a core's share."""

    name = "py-spy"

    def __init__(self, executable: str, rate_hz: int = RATE_HZ) -> None:
        self._executable, self._rate_hz = executable, rate_hz
        handle, path = tempfile.mkstemp(suffix=".txt")
        os.close(handle)
        self._path = Path(path)
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def find() -> str | None:
        """Beside our interpreter, or on the path."""
        beside = Path(sys.executable).with_name("py-spy")
        return str(beside) if beside.is_file() else shutil.which("py-spy")

    def start(self) -> None:
        command = [
            self._executable,
            "record",
            "--pid",
            str(os.getpid()),
            "--format",
            "raw",
            "--function",
            "--nonblocking",
        ]
        command += ["--rate", str(self._rate_hz), "--duration", "3600", "--output", str(self._path)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        with contextlib.suppress(OSError, AttributeError):
            # Where only ancestors may look at a process, say that this child may, too.
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, self._process.pid, 0, 0, 0)
        self._await_attachment(self._process)

    @staticmethod
    def _await_attachment(process: subprocess.Popen[bytes]) -> None:
        """py-spy says a line when it samples; one that cannot ends at once."""
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        until = time.monotonic() + ATTACH_S
        while time.monotonic() < until and process.poll() is None:
            if b"Sampling process" in (process.stdout.read() or b""):
                return
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def stacks(self) -> Stacks:
        """Nothing, where the system did not let py-spy look."""
        text = self._path.read_text(encoding="utf-8", errors="replace")
        self._path.unlink(missing_ok=True)
        found: Stacks = {}
        for line in text.splitlines():
            stack, _, count = line.rpartition(" ")
            if stack and count.isdecimal():
                frames = ";".join(_shortened(frame) for frame in stack.split(";"))
                found[frames] = found.get(frames, 0) + int(count)
        return found


def make_profiler(wanted: str = "auto") -> PySpy | StackSampler:
    """``py-spy``, ``own``, or whichever is there."""
    executable = PySpy.find() if wanted in ("auto", "py-spy") else None
    return PySpy(executable) if executable else StackSampler()


def _shortened(frame: str) -> str:
    name, bracket, rest = frame.partition(" (")
    return f"{name} ({_short(rest.removesuffix(')'))})" if bracket else name


def _short(path: str) -> str:
    """The part of a path that says whose code it is."""
    for mark in ("/site-packages/", "/src/"):
        _, found, after = path.rpartition(mark)
        if found:
            return after
    _, found, after = path.rpartition("/lib/python")
    return after.partition("/")[2] if found else path


# ---- whose time it is ------------------------------------------------------------------------------------------------

_CACHE_CALLS = frozenset(("assume", "forget", "set_pod", "remove_pod", "set_node", "remove_node", "info", "put"))
_PARTS = (
    ("mooring/core/engine/", "decide"),
    ("mooring/net/watch.py", "watch, decode, informers"),
    ("mooring/net/informer.py", "watch, decode, informers"),
    ("mooring/net/", "requests"),
    ("mooring/core/queue/", "queue"),
    ("mooring/live/event_handlers.py", "event handlers"),
    ("mooring/live/writer.py", "binding cycle"),
    ("mooring/live/events.py", "events and metrics"),
    ("mooring/live/observer.py", "events and metrics"),
    ("mooring/live/metrics.py", "events and metrics"),
    ("mooring/live/versioned_metrics.py", "events and metrics"),
    ("mooring/live/meters.py", "events and metrics"),
    ("mooring/live/", "scheduler loop"),
    ("mooring/bench/", "benchmark"),
)
_SERVER = ("mooring/controlplane/", "mooring/sim/backend.py")
_SERVER_FOR = (
    ("mooring/bench/", "API server: making objects"),
    ("mooring/live/events.py", "API server: events"),
    ("mooring/live/writer.py", "API server: bindings and patches"),
    ("mooring/net/watch.py", "API server: watches"),
)


def part_of(stack: str) -> str:
    """Whose work a stack is: that of the innermost frame that says so; the API server's by who asked for it."""
    frames = [_split(frame) for frame in reversed(stack.split(";"))]
    for name, path in frames:
        if path.startswith(_SERVER):
            for _, outer in frames:
                for prefix, part in _SERVER_FOR:
                    if outer.startswith(prefix):
                        return part
            return "API server: the rest"
        if path == "mooring/core/state/cluster.py" and name in _CACHE_CALLS:
            return "cache: assume, confirm"
        if path == "mooring/live/schedule_one.py" and ("bind_pod", path) in frames:
            return "binding cycle"
        for prefix, part in _PARTS:
            if path.startswith(prefix):
                return part
    return "event loop and the rest"


def _split(frame: str) -> tuple[str, str]:
    """The bare name of the function, and its file."""
    name, _, path = frame.partition(" (")
    return name.rpartition(".")[2], path.removesuffix(")").partition(":")[0]


def breakdown(stacks: Stacks) -> list[tuple[str, float]]:
    """The parts by their share of all samples, the largest first."""
    parts: Counter[str] = Counter()
    for stack, count in stacks.items():
        parts[part_of(stack)] += count
    total = sum(parts.values()) or 1
    return [(part, count / total) for part, count in parts.most_common()]


def hottest(stacks: Stacks, limit: int = 15) -> list[tuple[str, float, float]]:
    """Functions by the share of samples in which they are the innermost frame, with that in which they are at all."""
    own: Counter[str] = Counter()
    all_of: Counter[str] = Counter()
    for stack, count in stacks.items():
        frames = stack.split(";")
        own[frames[-1]] += count
        for frame in set(frames):
            all_of[frame] += count
    total = sum(own.values()) or 1
    return [(frame, count / total, all_of[frame] / total) for frame, count in own.most_common(limit)]


# --------------------------------------------------------------------------------------------------------------------
# Flame graphs: a box for each function, as wide as its share of the samples, on top of who called it.

WIDTH, ROW, MARGIN = 1400.0, 17.0, 10.0
MIN_SHARE = 0.0005
LETTER = 6.2


@dataclass(slots=True)
class _Box:
    count: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    children: dict[str, _Box] = field(default_factory=dict)


def collapsed(stacks: Stacks) -> str:
    """One line for each stack: what other flame graph tools read."""
    return "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))


def flame_graph(stacks: Stacks, title: str) -> str:
    """An SVG document; colours say whose work a box is, titles its share."""
    root = _Box()
    for stack, count in stacks.items():
        part, box = part_of(stack), root
        root.count += count
        for frame in stack.split(";"):
            box = box.children.setdefault(frame, _Box())
            box.count += count
            box.parts[part] = box.parts.get(part, 0) + count
    depth = _depth(root, root.count)
    height = MARGIN * 2 + 40 + depth * ROW
    body = [svg.text(MARGIN, 24, title, size=15)]
    body.append(svg.text(MARGIN, 40, f"{root.count:,} samples; hover for shares", size=10, fill="#666666"))
    if root.count:
        _draw(root, MARGIN, height - MARGIN - ROW, (WIDTH - 2 * MARGIN) / root.count, root.count, body)
    return svg.document(WIDTH, height, title, body)


def _depth(box: _Box, total: int) -> int:
    shown = [child for child in box.children.values() if child.count >= total * MIN_SHARE]
    return 1 + max((_depth(child, total) for child in shown), default=0)


def _draw(box: _Box, x: float, y: float, scale: float, total: int, body: list[str]) -> None:
    for frame, child in sorted(box.children.items()):
        width = child.count * scale
        if child.count >= total * MIN_SHARE:
            part = max(child.parts, key=lambda name: child.parts[name])
            body.append(
                svg.box(x, y, max(width - 0.5, 0.2), ROW - 1, _colour(part), f"{frame}: {child.count / total:.1%}")
            )
            letters = int((width - 6) / LETTER)
            if letters >= 3:
                label = frame if len(frame) <= letters else frame[: letters - 1] + "…"
                body.append(svg.text(x + 3, y + ROW - 5, label, size=11))
            _draw(child, x, y - ROW, scale, total, body)
        x += width


def _colour(part: str) -> str:
    hue = zlib.crc32(part.encode()) % 360
    return f"hsl({hue}, 65%, 72%)"


# --------------------------------------------------------------------------------------------------------------------
# The command.


def chosen(name: str, directory: Path = DIRECTORY) -> PerfWorkload:
    """The workload of this name; a case stands for its largest quick one."""
    found = load(directory).select([name])
    quick = [workload for workload in found if "quick" in workload.labels] if len(found) > 1 else []
    return max(quick or found, key=lambda workload: sum(v for v in workload.params.values() if isinstance(v, int)))


def main(argv: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("name", metavar="CASE[/WORKLOAD]")
    options.add_argument("--dir", type=Path, default=DIRECTORY, help="definitions in scheduler_perf's format")
    options.add_argument("--with", dest="sampler", choices=("auto", "py-spy", "own"), default="auto")
    options.add_argument("--svg", type=Path, help="where the flame graph goes (CASE.svg)")
    options.add_argument("--stacks", type=Path, help="also write collapsed stacks for other tools")
    asked = options.parse_args(argv)
    workload = chosen(asked.name, asked.dir)
    profiler = make_profiler(asked.sampler)
    (result, *_) = runner.run(workload, profiler=profiler)
    stacks = profiler.stacks()
    if not stacks and isinstance(profiler, PySpy):  # it may not look at processes here
        profiler = StackSampler()
        (result, *_) = runner.run(workload, profiler=profiler)
        stacks = profiler.stacks()
    if result.error:
        print(result.error)
        return 1
    title = f"{workload.full_name}: {result.throughput.average:,.0f} pods/s, by {profiler.name}"
    picture = asked.svg or Path(f"{workload.case}.svg")
    picture.write_text(flame_graph(stacks, title), encoding="utf-8")
    if asked.stacks:
        asked.stacks.write_text(collapsed(stacks), encoding="utf-8")
    for part, share in breakdown(stacks):
        print(f"{part:40}{share:7.1%}{share * (result.cpu_s_per_1000 or 0.0) * 1000:9,.0f} CPU us/pod")
    print()
    for frame, own, total in hottest(stacks):
        print(f"{own:7.1%}{total:7.1%}  {frame}")
    print(f"\n{title}: {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
