"""``mooring run --write-config-to``: the whole configuration, for its owner alone."""

from __future__ import annotations

import os
from pathlib import Path

from click.testing import CliRunner

from mooring.api import yaml
from mooring.api.errors import UsageError
from mooring.cli.run import run

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://me:secret@extender/
  filterVerb: filter
"""


def write(tmp_path: Path, target: Path) -> object:
    (tmp_path / "config.yaml").write_text(CONFIG)
    arguments = ["--config", str(tmp_path / "config.yaml"), "--write-config-to", str(target)]
    return CliRunner().invoke(run, arguments, standalone_mode=False).exception


def test_it_can_be_read_back_by_its_owner_alone(tmp_path: Path) -> None:
    target = tmp_path / "written.yaml"
    before = os.umask(0)
    try:
        assert write(tmp_path, target) is None
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o600
    (document,) = yaml.load_all(target.read_bytes(), "written")
    assert document["extenders"][0]["urlPrefix"] == "https://me:secret@extender/", "what is written can be used"


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    error = write(tmp_path, tmp_path / "gone" / "x")
    assert isinstance(error, UsageError)
    assert str(error) == f"--write-config-to {tmp_path / 'gone' / 'x'}: No such file or directory"
