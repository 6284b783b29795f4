"""Which extender a reference names, and what is said when it names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.api.errors import PluginError
from mooring.net.extender.server import load_extender

FUNCTION = """
def filter(pod, nodes: list[str]):
    return nodes
"""
NAMED = "name = 'chosen'\n" + FUNCTION
CLASS = """
from mooring.net.extender.sdk import Extender

class Scorer(Extender):
    def prioritize(self, pod, nodes: list[str]):
        return {}
"""
TWO = CLASS + CLASS.replace("Scorer", "Other")
DERIVED = CLASS.replace("class Scorer(Extender)", "class Scorer(Base)").replace(
    "\nclass", "\nfrom base_of_extenders import Base\n\nclass"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that the command is called in; its modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "base_of_extenders.py").write_text(CLASS.replace("Scorer", "Base"))
    return tmp_path


@pytest.mark.parametrize(
    ("content", "reference", "name", "verbs"),
    [
        pytest.param(FUNCTION, "{file}", "{stem}", ["filter"], id="the functions of a file"),
        pytest.param(FUNCTION, "{stem}", "{stem}", ["filter"], id="the functions of a module"),
        pytest.param(NAMED, "{file}", "chosen", ["filter"], id="functions with a name"),
        pytest.param(CLASS, "{file}", "Scorer", ["prioritize"], id="the only class of a file"),
        pytest.param(CLASS, "{stem}", "Scorer", ["prioritize"], id="the only class of a module"),
        pytest.param(TWO, "{file}:Other", "Other", ["prioritize"], id="a class of several"),
        pytest.param(TWO, "{stem}:Scorer", "Scorer", ["prioritize"], id="a class of several in a module"),
        pytest.param(CLASS + FUNCTION, "{file}", "Scorer", ["prioritize"], id="a class before functions"),
        pytest.param(DERIVED, "{file}", "Scorer", ["prioritize"], id="a base that is imported does not count"),
    ],
)
def test_what_a_reference_names(
    here: Path, request: pytest.FixtureRequest, content: str, reference: str, name: str, verbs: list[str]
) -> None:
    stem = "ext_" + "".join(c if c.isalnum() else "_" for c in request.node.callspec.id)
    (here / f"{stem}.py").write_text(content)
    served = load_extender(reference.format(file=f"{stem}.py", stem=stem))
    assert (served.settings.name, list(served.verbs)) == (name.format(stem=stem), verbs)


@pytest.mark.parametrize(
    ("content", "reference", "said"),
    [
        pytest.param("", "gone.py", "gone.py: there is no file gone.py", id="no file"),
        pytest.param("", "gone_module", "gone_module: there is no module gone_module", id="no module"),
        pytest.param("", "gone/mine", "there is no module gone/mine", id="a file without its ending"),
        pytest.param("x = 1\n1 / 0", "mine.py", "mine.py, line 2: ZeroDivisionError: division by zero", id="it fails"),
        pytest.param("def filter(:", "mine.py", "mine.py, line 1: invalid syntax", id="not Python"),
        pytest.param("import nonesuch", "mine.py", "mine.py, line 1: ModuleNotFoundError", id="it needs another"),
        pytest.param(CLASS, "mine.py:Nobody", "mine.py:Nobody: there is no Nobody in it", id="no such class"),
        pytest.param(TWO, "mine.py", "several extenders (Scorer, Other); name one, as in mine.py:Scorer", id="several"),
        pytest.param("", "mine.py", "mine.py: defines none of filter", id="an empty file"),
        pytest.param("", ":Class", "':Class': expected file.py", id="a class of nothing"),
        pytest.param("", "mine.py:", "'mine.py:': expected file.py", id="a colon and no class"),
    ],
)
def test_the_error_if_no_extender_is_found(here: Path, content: str, reference: str, said: str) -> None:
    (here / "mine.py").write_text(content)
    with pytest.raises(PluginError) as caught:
        load_extender(reference)
    assert said in str(caught.value) and "\n" not in str(caught.value)
