"""Files that others have made, where they are at hand: ``../shared/data`` beside the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.sim.imports.read import import_files

PROJECT = Path(__file__).parents[3]
DATA = next((each for each in (up / "shared" / "data" for up in PROJECT.parents) if each.is_dir()), None)
pytestmark = pytest.mark.skipif(DATA is None, reason="no ../shared/data with openb's tables and SimKube's traces")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("openb/openb_node_list_gpu_node.csv", "1213 nodes"),
        ("openb/openb_node_list_all_node.csv", "1523 nodes"),
        ("openb/openb_pod_list_default.csv", "8152 pods that arrive"),
        ("openb/openb_pod_list_multigpu20.csv", "8324 pods that arrive"),
        ("simkube/bare-pods.sktrace", "4 pods that arrive"),
        ("simkube/cronjob.sktrace", "3 pods that arrive"),
        ("simkube/dsb-scaling.sktrace", "46 changes"),
        ("simkube/large_trace.json", "250 changes"),
        ("simkube/trace.json", "2 changes"),
    ],
)
def test_the_file_is_imported_whole(name: str, want: str) -> None:
    assert DATA is not None
    assert import_files([DATA / name]).summary() == want
