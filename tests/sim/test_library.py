"""Finding stories: by name, by file, and what a Python file may say about its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.api.errors import InputError
from mooring.sim.library import FIRST, FOLDER, built_in, find, load, names

STORY = '''"""A story in a file.

With more to say about it.
"""
CONFIG = {"profiles": [{"schedulerName": "mine"}]}
PLUGINS = (int,)
EXTENDERS = ("one",)

async def scenario(cluster):
    """Not the title."""
'''

KUBECTL = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: a}
"""
QUOTED = '"apiVersion": v1\n"kind": Node\n"metadata": {"name": a}\n'


def write(folder: Path, text: str, name: str = "my_story.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_introductory_story_is_the_first_and_the_rest_is_in_order() -> None:
    assert names()[0] == FIRST
    assert names()[1:] == sorted(names()[1:])
    assert len(names()) == len(set(names())) >= 13


def test_every_story_has_a_title_of_one_line_and_a_source() -> None:
    for scenario in built_in():
        assert scenario.title and "\n" not in scenario.title
        assert Path(scenario.source).parent == FOLDER
        assert scenario.name.replace("-", "_") == Path(scenario.source).stem


def test_a_python_file_says_everything(tmp_path: Path) -> None:
    scenario = find(write(tmp_path, STORY))
    assert (scenario.name, scenario.title) == ("my-story", "A story in a file.")
    assert scenario.config == {"profiles": [{"schedulerName": "mine"}]}
    assert (scenario.plugins, scenario.extenders) == ((int,), ("one",))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        pytest.param('TITLE = "Mine"\n' + STORY, "Mine", id="a title"),
        pytest.param('async def scenario(cluster):\n    """What it does."""\n', "What it does.", id="of the function"),
        pytest.param("async def scenario(cluster): pass\n", "my-story", id="none: the file's name"),
    ],
)
def test_where_the_title_comes_from(tmp_path: Path, text: str, title: str) -> None:
    assert find(write(tmp_path, text)).title == title


def test_a_yaml_file_is_a_story_too(tmp_path: Path) -> None:
    path = write(tmp_path, "title: Mine\nsteps: []\n", "my_story.yml")
    assert (find(path).name, find(path).title) == ("my_story", "Mine")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("def scenario(cluster): pass\n", "async def scenario", id="not async"),
        pytest.param("scenario = 3\n", "async def scenario", id="not a function"),
        pytest.param("", "async def scenario", id="nothing"),
        pytest.param("1 / 0\n", "cannot be imported: ZeroDivisionError", id="it breaks"),
        pytest.param("def broken(:\n", "cannot be imported: SyntaxError", id="a syntax error"),
        pytest.param("import nothing_like_it\n", "cannot be imported: ModuleNotFoundError", id="a module it lacks"),
    ],
)
def test_a_python_file_that_is_no_story(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=says) as failed:
        find(path)
    assert str(failed.value).startswith(path) and "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("first-placment", "did you mean first-placement", id="a slip of the pen"),
        pytest.param("nothing-like-it", "there are first-placement", id="an unknown name"),
        pytest.param("missing/story.py", "No such file", id="a file that is not there"),
        pytest.param("missing.yaml", "No such file", id="a YAML file that is not there"),
        pytest.param("story.txt/", "not a story; expected a scenario", id="another kind of file"),
    ],
)
def test_what_cannot_be_found(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        find(text)


def test_a_built_in_story_can_be_loaded_by_its_path() -> None:
    assert load(FOLDER / "preemption.yaml").name == "preemption"
    assert load(FOLDER / "zone_spread.py").name == "zone-spread"


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.yml", "folder"])
@pytest.mark.parametrize(
    "text", [KUBECTL, "---\n" + KUBECTL, '"apiVersion": v1\n"kind": Node\n"metadata": {"name": a}\n']
)
def test_what_kubectl_prints_is_a_story_of_its_cluster(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    if not path.suffix:
        path.mkdir()
    (path if path.suffix else path / "a.yaml").write_text(text)
    assert find(str(path)).title == "Kubernetes manifests: 1 node"
