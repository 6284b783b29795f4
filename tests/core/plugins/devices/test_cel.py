from __future__ import annotations

import re
import sys

import msgspec
import pytest

from mooring.api.resource import DeviceAttribute, DeviceCapacity
from mooring.core.plugins.devices import cel
from mooring.core.plugins.devices.cel import CelSelectors, CompileError, RuntimeCelError

DRIVER = "gpu.example.com"


def content(
    attributes: dict[str, DeviceAttribute] | None = None,
    capacity: dict[str, str] | None = None,
    *,
    shareable: bool | None = None,
) -> bytes:
    known = {
        "model": DeviceAttribute(string_value="a100"),
        "index": DeviceAttribute(int_value=4),
        "healthy": DeviceAttribute(bool_value=True),
        "version": DeviceAttribute(version_value="1.10.0"),
        "other.org/rack": DeviceAttribute(int_value=7),
    }
    amounts = {name: DeviceCapacity(value=v) for name, v in (capacity or {"memory": "40Gi"}).items()}
    return msgspec.msgpack.encode((DRIVER, shareable, known if attributes is None else attributes, amounts))


GPU = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'


@pytest.fixture(scope="module")
def selectors() -> CelSelectors:
    return CelSelectors()


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        pytest.param(f'device.driver == "{DRIVER}"', True, id="the driver's name"),
        pytest.param(f'{GPU}.model in ["a100", "h100"]', True, id="a string in a list"),
        pytest.param(f"{GPU}.index > 3", True, id="an integer compared"),
        pytest.param(f"{GPU}.index > 3.5", True, id="an integer compared with a double"),
        pytest.param(f"{GPU}.healthy", True, id="a bool by itself"),
        pytest.param('device.attributes["other.org"].rack == 7', True, id="an attribute of another domain"),
        pytest.param(f"{GPU}.?gone.orValue(9) == 9", True, id="an optional attribute"),
        pytest.param(f'cel.bind(gpu, {GPU}, gpu.healthy && gpu.model == "a100")', True, id="cel.bind"),
        pytest.param(f'cel.bind(d, device, d.driver == "{DRIVER}")', True, id="the device as a whole"),
        pytest.param('"rack" in device.attributes["gone.org"]', False, id="a missing domain is an empty map"),
        pytest.param('device.attributes["gone.org"].size() == 0', True, id="a missing domain has no entries"),
        pytest.param('"gone.org" in device.attributes', False, id="a missing domain is not listed"),
        pytest.param("device.allowMultipleAllocations", False, id="not shareable by default"),
        pytest.param(f'{MEMORY}.compareTo(quantity("40Gi")) == 0', True, id="a capacity compared"),
        pytest.param(f'{MEMORY}.isGreaterThan(quantity("16Gi"))', True, id="a capacity is greater"),
        pytest.param(f'{MEMORY}.isLessThan(quantity("1Ti"))', True, id="a capacity is less"),
        pytest.param(f"{MEMORY}.asInteger() == 42949672960", True, id="a capacity as an integer"),
        pytest.param(f'{MEMORY}.sub(quantity("39Gi")).add(1) == quantity("1073741825")', True, id="arithmetic"),
        pytest.param('quantity("1Gi") == quantity("1024Mi")', True, id="equal quantities in different notation"),
        pytest.param('isQuantity("10 apples")', False, id="what is no quantity"),
        pytest.param('quantity("1500m").isInteger()', False, id="a fraction is no integer"),
        pytest.param('quantity("-3").sign() == -1', True, id="the sign"),
        pytest.param(f'{GPU}.version.isGreaterThan(semver("1.9.9"))', True, id="versions compare by number, not text"),
        pytest.param(f'{GPU}.version == semver("1.10.0+build5")', True, id="build metadata does not count"),
        pytest.param('semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))', True, id="a prerelease comes first"),
        pytest.param('semver("v1.2", true) == semver("1.2.0")', True, id="a normalised version"),
        pytest.param(f"{GPU}.version.major() + {GPU}.version.minor() == 11", True, id="parts of a version"),
        pytest.param("[1, 2, 3].sum() == 6 && [2, 1].isSorted() == false", True, id="functions of lists"),
        pytest.param('sets.contains(["a", "b"], ["b"]) && sets.intersects([1], [1, 2])', True, id="sets"),
        pytest.param(
            "[3, 1, 3].distinct().sort() == [1, 3] && lists.range(2) == [0, 1]", True, id="lists put in order"
        ),
        pytest.param("[[1], [2, [3]]].flatten() == [1, 2, [3]]", True, id="lists in lists, one level"),
        pytest.param("[1, [2, [3]]].flatten(2).reverse().slice(0, 2) == [3, 2]", True, id="a part of a flat list"),
        pytest.param("has(device.driver) && has( device . capacity )", True, id="a device has all its fields"),
        pytest.param("has(device.allowMultipleAllocations) && has(device.attributes.gone)", True, id="even empty ones"),
        pytest.param('\'has(device.driver)\' == "has(device." + "driver)"', True, id="a text is left alone"),
        pytest.param(f"has({GPU}.model) && !has({GPU}.gone)", True, id="an attribute may be missing"),
        pytest.param('"A-b".lowerAscii().replace("-", "+").split("+").join(":") == "a:b"', True, id="strings"),
        pytest.param(f"{GPU}.gone == 1 || true", True, id="an error beside true does not matter"),
    ],
)
def test_selectors(selectors: CelSelectors, expression: str, want: bool) -> None:
    assert selectors.matches(expression, content()) is want


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param(f'{GPU}.gone == "x"', "no such key: gone", id="a missing attribute"),
        pytest.param('device.attributes["gone.org"].x == 1', "no such key: x", id="a missing attribute, domain too"),
        pytest.param(f"{GPU}.index.startsWith('x')", "no such overload", id="a function of another type"),
        pytest.param(f"{MEMORY}.isLessThan({GPU}.version)", "no such overload", id="a quantity against a version"),
        pytest.param("1 / (device.driver.size() - 15) == 1", "division by zero", id="a division by zero"),
        pytest.param("[1].slice(0, 2) == [1]", "cannot slice(0, 2), list is length 1", id="a slice too long"),
        pytest.param(
            "[1].slice(-1, 0) == []", "cannot slice(-1, 0), negative indexes not supported", id="from below 0"
        ),
        pytest.param("[1].flatten(-1) == [1]", "level must be non-negative", id="flat to below 0"),
        pytest.param("[dyn(1), dyn('a')].sort() == []", "list elements must have the same type", id="no order"),
        pytest.param("[[1], [2]].sort() == []", "list elements must be comparable", id="lists have no order"),
        pytest.param("[1][device.driver.size()] == 1", "index out of bounds: 15", id="an index too large"),
        pytest.param(
            f"{GPU}.index",
            "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
            id="a verdict that is no bool",
        ),
        pytest.param(
            'quantity(device.driver) == quantity("1")',
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="text that is no quantity",
        ),
        pytest.param(
            'device[?"driver"]',
            "CEL result of type optional_type could not be converted to bool: "
            "unsupported type conversion from 'optional_type' to bool",
            id="an optional verdict",
        ),
        pytest.param('semver("1.0") == semver("1.0.0")', "No Major.Minor.Patch elements found", id="a short version"),
    ],
)
def test_runtime_errors_are_phrased_as_upstream_does(selectors: CelSelectors, expression: str, text: str) -> None:
    for _ in range(2):  # the second answer comes from the cache
        with pytest.raises(RuntimeCelError) as error:
            selectors.matches(expression, content())
        assert str(error.value) == text


@pytest.mark.parametrize(
    ("expression", "start"),
    [
        pytest.param("1 +", "compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input", id="syntax"),
        pytest.param(
            "nothing == 1", "compilation failed: ERROR: <input>:1:1: undeclared reference to", id="unknown name"
        ),
        pytest.param(
            "device.foo == 1", "compilation failed: ERROR: <input>:1:7: undefined field 'foo'", id="unknown field"
        ),
        pytest.param('device.driver == "\ud800"', "compilation failed: the expression is not valid", id="not Unicode"),
        pytest.param("(" * 5000, "compilation failed: Expression recursion limit exceeded", id="too deep"),
        pytest.param("device.driver", "must evaluate to bool or the unknown type, not string", id="no verdict"),
        pytest.param('quantity("1").isLessThan(semver("1.0.0"))', "compilation failed: ", id="types that do not mix"),
    ],
)
def test_compile_errors_say_where(selectors: CelSelectors, expression: str, start: str) -> None:
    for _ in range(2):
        with pytest.raises(CompileError) as error:
            selectors.matches(expression, content())
        assert str(error.value).startswith(start)


def test_a_version_attribute_that_does_not_parse_is_a_runtime_error(selectors: CelSelectors) -> None:
    broken = content({"version": DeviceAttribute(version_value="one")})
    with pytest.raises(RuntimeCelError, match="attribute version: parse semantic version: No Major"):
        selectors.matches("device.driver == ''", broken)


def test_an_attribute_without_a_value_is_a_runtime_error(selectors: CelSelectors) -> None:
    with pytest.raises(RuntimeCelError, match="attribute odd: unsupported attribute value"):
        selectors.matches("device.driver == ''", content({"odd": DeviceAttribute()}))


class TestCostLimit:
    def test_nested_loops_stop(self, selectors: CelSelectors) -> None:
        numbers = "[" + ",".join(map(str, range(200))) + "]"
        with pytest.raises(RuntimeCelError, match="operation cancelled: actual cost limit exceeded"):
            selectors.matches(f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))", content())

    def test_doubling_through_bindings_is_refused(self, selectors: CelSelectors) -> None:
        expression = "v24.size() > 0"
        for i in range(24, 0, -1):
            expression = f"cel.bind(v{i}, v{i - 1} + v{i - 1}, {expression})"
        with pytest.raises(CompileError, match="actual cost limit exceeded"):
            selectors.matches(f"cel.bind(v0, device.driver, {expression})", content())

    @pytest.mark.parametrize("expression", ["lists.range(1000000000) == []", "lists.range(9000).distinct() == []"])
    def test_long_lists_stop(self, selectors: CelSelectors, expression: str) -> None:
        with pytest.raises(RuntimeCelError, match="operation cancelled: actual cost limit exceeded"):
            selectors.matches(expression, content())

    def test_growing_replacements_stop(self, selectors: CelSelectors) -> None:
        text = "device.driver"
        for _ in range(5):
            text = f'{text}.replace("", "0123456789012345678901234567890123456789")'
        with pytest.raises(RuntimeCelError, match="operation cancelled: actual cost limit exceeded"):
            selectors.matches(f"{text}.size() > 0", content())


def test_where_the_package_is_missing_the_error_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    with pytest.raises(
        CompileError, match="need a package that is not installed; install it with: pip install cel-expr-python"
    ):
        CelSelectors().matches("true", content())


def test_extensions_are_loaded_for_expressions_that_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    kind = cel._Runtime

    def counted(*, is_extended: bool) -> cel._Runtime:
        made.append(is_extended)
        return kind(is_extended=is_extended)

    monkeypatch.setattr(cel, "_Runtime", counted)
    selectors = CelSelectors()
    selectors.compile("device.driver != 'd'")
    assert made == [False]
    selectors.compile("cel.bind(d, device.driver, d == 'd')")
    selectors.compile("device.attributes[?'d'].hasValue()")
    assert made == [False, True]


@pytest.mark.parametrize(
    ("expression", "is_plain"),
    [
        pytest.param(f'device.driver == "{DRIVER}"', True, id="the driver"),
        pytest.param(f" device.driver=='{DRIVER}'\n", True, id="the driver, spelt otherwise"),
        pytest.param('device.driver == "other.example.com"', True, id="another driver"),
        pytest.param("device.driver == ''", True, id="no driver"),
        pytest.param(f'device.driver == "{DRIVER}" && true', False, id="the driver and something else"),
        pytest.param(f'device.driver == r"{DRIVER}"', False, id="a raw text"),
        pytest.param('device.driver == "\\x67"', False, id="a text with an escape"),
        pytest.param(f"""device.driver == '{DRIVER}" || 'a' == 'a'""", False, id="quotes that do not match"),
        pytest.param(f'device.driver == """{DRIVER}"""', False, id="three quotes"),
        pytest.param(f"device.driver != '{DRIVER}'", False, id="not the driver"),
    ],
)
def test_a_driver_is_compared_without_the_library(
    monkeypatch: pytest.MonkeyPatch, expression: str, is_plain: bool
) -> None:
    def answer(selectors: CelSelectors) -> bool | str:
        try:
            return selectors.matches(expression, content())
        except CompileError as error:
            return str(error)

    found = answer(CelSelectors())
    monkeypatch.setattr(cel, "_DRIVER_IS", re.compile("(?!)"))
    assert found == answer(CelSelectors()), "the library says the same"
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    assert (answer(CelSelectors()) == found) is is_plain
