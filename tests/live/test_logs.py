"""klog's text and JSON forms."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest

from mooring.api.errors import UsageError
from mooring.live import logs


@pytest.fixture
def lines():
    """Set up logging into a string; gives a function that returns and forgets what was written."""
    streams: list[io.StringIO] = []

    def set_up(**kwargs):
        stream = io.StringIO()
        streams.append(stream)
        handlers.append(logs.set_up(stream=stream, root="mooring_test", **kwargs))
        return stream

    handlers: list[logging.Handler] = []
    yield set_up
    for handler in handlers:
        logging.getLogger("mooring_test").removeHandler(handler)


LOGGER = logs.get_logger("mooring_test.part")


def test_the_text_form(lines):
    stream = lines(verbosity=2)
    LOGGER.v(2).info("Successfully bound pod to node", pod="default/web", evaluatedNodes=3, ok=True, none=None)
    assert re.fullmatch(
        r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logs\.py:\d+\] "
        r'"Successfully bound pod to node" pod="default/web" evaluatedNodes=3 ok=true none=<nil>\n',
        stream.getvalue(),
    )
    process = stream.getvalue()[len("I1115 20:25:38.000000 ") :][:7]
    assert process.strip().isdigit()


@pytest.mark.parametrize(
    ("call", "want"),
    [
        pytest.param(lambda: LOGGER.info("a 100% case"), '"a 100% case"', id="percent signs stay"),
        pytest.param(lambda: LOGGER.info('say "hi"\n'), r'"say \"hi\"\n"', id="quotes and newlines are escaped"),
        pytest.param(lambda: LOGGER.info("m", a={"b": [1]}), '"m" a={"b":[1]}', id="structures are JSON"),
        pytest.param(lambda: LOGGER.info("m", t="one\ntwo"), '"m" t=<\n\tone\n\ttwo\n >', id="several lines"),
        pytest.param(lambda: LOGGER.error(ValueError("bad"), "m", n=1), '"m" err="bad" n=1', id="an error"),
        pytest.param(lambda: logging.getLogger("mooring_test").info("plain %d", 7), "plain 7", id="an ordinary logger"),
    ],
)
def test_text_values(lines, call, want):
    stream = lines()
    call()
    assert stream.getvalue().partition("] ")[2] == want + "\n"


@pytest.mark.parametrize(
    ("call", "letter"),
    [
        (lambda: LOGGER.info("m"), "I"),
        (lambda: LOGGER.warning("m"), "W"),
        (lambda: LOGGER.error(None, "m"), "E"),
        (lambda: logging.getLogger("mooring_test").critical("m"), "F"),
    ],
)
def test_severities(lines, call, letter):
    stream = lines()
    call()
    assert stream.getvalue()[0] == letter


def test_verbosity(lines):
    stream = lines(verbosity=3)
    assert LOGGER.v(3)
    assert not LOGGER.v(4)
    LOGGER.v(4).info("unseen")
    assert stream.getvalue() == ""
    logs.set_verbosity(10, root="mooring_test")
    LOGGER.v(10).info("seen")
    assert "seen" in stream.getvalue()


def test_the_json_form(lines):
    stream = lines(logging_format="json", verbosity=4)
    LOGGER.v(4).info("hello", pod={"name": "web", "namespace": "default"})
    LOGGER.error(ValueError("bad"), "went wrong")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert set(first) == {"ts", "caller", "msg", "v", "pod"}
    assert (first["msg"], first["v"], first["pod"]) == ("hello", 4, {"name": "web", "namespace": "default"})
    assert first["caller"].startswith("test_logs.py:")
    assert first["ts"] > 1.6e12
    assert (second["msg"], second["err"]) == ("went wrong", "bad")
    assert "v" not in second


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param({"pod": "default/web"}, {"pod": {"name": "web", "namespace": "default"}}, id="a pod"),
        pytest.param({"victim": "a/b"}, {"victim": {"name": "b", "namespace": "a"}}, id="a victim"),
        pytest.param({"pod": "web"}, {"pod": {"name": "web"}}, id="an object without a namespace"),
        pytest.param({"lock": "kube-system/x"}, {"lock": "kube-system/x"}, id="a lock is plain text, as upstream's"),
    ],
)
def test_objects_have_two_fields_in_json(lines, values, want):
    stream = lines(logging_format="json")
    LOGGER.info("m", **values)
    line = json.loads(stream.getvalue())
    assert {key: line[key] for key in want} == want


@pytest.mark.parametrize(("verbosity", "is_shown"), [(1, False), (2, True)])
def test_an_error_brings_its_traceback_from_verbosity_two_on(lines, verbosity, is_shown):
    stream = lines(verbosity=verbosity)
    try:
        raise KeyError("x")
    except KeyError as error:
        LOGGER.error(error, "broke", n=1)
    assert '"broke" err="\'x\'" n=1' in stream.getvalue()
    assert ("Traceback" in stream.getvalue()) is is_shown


def test_the_plain_form_for_terminals():
    record = logging.LogRecord("mooring.x", logging.WARNING, "x.py", 1, "too %s", ("late",), None)
    record.values = {"pod": "default/web", "n": 1}
    assert logs.PlainFormatter().format(record) == 'WARNING mooring.x: too late pod="default/web" n=1'


def test_exceptions_are_shown(lines):
    stream = lines()
    try:
        raise KeyError("x")
    except KeyError:
        logging.getLogger("mooring_test").exception("broke")
    assert "KeyError: 'x'" in stream.getvalue()


def test_setting_up_twice_logs_once(lines):
    lines()
    stream = lines()
    LOGGER.info("once")
    assert stream.getvalue().count("once") == 1


@pytest.mark.parametrize(
    ("kwargs", "words"), [({"logging_format": "xml"}, "should be text or json"), ({"verbosity": -1}, "0 or more")]
)
def test_bad_flags(kwargs, words):
    with pytest.raises(UsageError, match=words):
        logs.set_up(root="mooring_test", **kwargs)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("plain", '"plain"', id="text is quoted"),
        pytest.param(True, "true", id="a truth"),
        pytest.param(None, "<nil>", id="nothing"),
        pytest.param(7, "7", id="a whole number"),
        pytest.param(0.5, "0.5", id="a fraction"),
        pytest.param(["a", 1], '["a",1]', id="a list"),
        pytest.param({"a": {"b": None}}, '{"a":{"b":null}}', id="an object"),
        pytest.param("Grüße", '"Grüße"', id="letters beyond ASCII stay"),
        pytest.param("a\nb", "<\n\ta\n\tb\n >", id="several lines are indented"),
        pytest.param(ValueError("bad"), '"bad"', id="anything else is its text"),
    ],
)
def test_how_a_value_is_written(value, text):
    assert logs.value_text(value) == text


@pytest.mark.parametrize(
    ("level", "verbosity"), [(logging.INFO, 0), (logging.INFO - 1, 1), (logging.INFO - 10, 10), (logging.ERROR, 0)]
)
def test_levels_are_verbosities(level, verbosity):
    assert logs.verbosity_of(level) == verbosity


def test_the_caller_is_the_line_that_logs(lines):
    stream = lines()
    LOGGER.info("here")
    LOGGER.warning("and here")
    LOGGER.error(None, "and here")
    callers = [line.split("] ")[0].split()[-1] for line in stream.getvalue().splitlines()]
    assert [caller.partition(":")[0] for caller in callers] == ["test_logs.py"] * 3
    numbers = [int(caller.partition(":")[2]) for caller in callers]
    assert numbers == list(range(numbers[0], numbers[0] + 3))


def test_json_lines_are_one_line_whatever_they_hold(lines):
    stream = lines(logging_format="json")
    LOGGER.info("a\nb", text="c\nd", other=object())
    assert stream.getvalue().count("\n") == 1
    line = json.loads(stream.getvalue())
    assert (line["msg"], line["text"]) == ("a\nb", "c\nd") and line["other"].startswith("<object object")


@pytest.mark.parametrize("logging_format", ["text", "json"])
def test_a_traceback_follows_in_both_forms(lines, logging_format):
    stream = lines(logging_format=logging_format, verbosity=2)
    try:
        raise ValueError("bad")
    except ValueError as error:
        LOGGER.error(error, "went wrong")
    shown = stream.getvalue() if logging_format == "text" else json.loads(stream.getvalue())["stacktrace"]
    assert "Traceback" in shown and "ValueError: bad" in shown


def test_without_handlers_the_values_are_printed_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    """As in a script or a notebook that has not set up logging."""
    alone = logging.Logger("alone")
    logs.StructuredLogger(alone).error("ValueError: no", "An observer raised", method="decided")
    assert capsys.readouterr().err == 'An observer raised: err="ValueError: no" method="decided"\n'
