"""CEL selectors over one device, as upstream's environment for dynamic resources offers them.

An expression is compiled twice: once against the real types, for upstream's errors, and once against the types that the
runtime supports (see ``cel_functions``). Verdicts are cached per (expression, device content).
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from mooring.api.errors import MooringError, ParseError
from mooring.api.quantity import parse_quantity
from mooring.api.resource import DeviceAttribute, DeviceCapacity
from mooring.core.plugins.devices.cel_functions import (
    COST_LIMIT_EXCEEDED,
    QUANTITY,
    SEMVER,
    CelBudget,
    CelFunction,
    CelFunctionError,
    encode_quantity,
    encode_version,
    functions,
)

INSTALL_LINE = "pip install cel-expr-python"

_KEY_NOT_FOUND = re.compile(r'NOT_FOUND: Key not found in map : "(.*)"\Z', re.DOTALL)
_INDEX_ERROR = re.compile(r"Index error: index=(-?\d+)")
_STATUS_PREFIX = re.compile(r"\A[A-Z_]+: ")
_STATUS_SUFFIX = re.compile(r" \[[A-Z_]+\]\Z")
_UNKNOWN_FIELD = re.compile(r"undeclared reference to 'device\.([A-Za-z0-9_]+)[^']*'")
# A device always has its fields, and every domain is at least an empty map; the library would look for values instead.
_PRESENCE = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|\bhas\(\s*device\s*\.\s*"""
    r"""(?:driver|allowMultipleAllocations|(?:attributes|capacity)(?:\s*\.\s*[A-Za-z_][A-Za-z0-9_]*)?)\s*\)"""
)
_DRIVER_IS = re.compile(r"""[ \t\n]*device\.driver *== *(["'])([A-Za-z0-9.-]*)\1[ \t\n]*""")
_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_MAX_GROWTH = 1_000_000
_MAX_CACHED_EXPRESSIONS = 1_000
_MAX_CACHED_VERDICTS = 500_000
_MAX_CACHED_DEVICES = 50_000


class CelError(MooringError):
    """An expression has no verdict, for this reason."""


class CompileError(CelError):
    """The expression itself is invalid."""


class RuntimeCelError(CelError):
    """The expression cannot be evaluated for this device."""


class CelSelectors:
    """Compiles and evaluates selectors; one per plugin instance, shared by all pods and nodes."""

    def __init__(self) -> None:
        self._plain: _Runtime | None = None
        self._extended: _Runtime | None = None  # with cel.bind and optional values, for expressions that need them
        self._programs: dict[str, _Program | CompileError] = {}
        self._verdicts: dict[tuple[str, bytes], bool | RuntimeCelError] = {}
        self._devices: dict[bytes, dict[str, Any]] = {}

    def matches(self, expression: str, content: bytes) -> bool:
        """Evaluate ``expression`` for a device given as its encoded content (see ``pools.PublishedDevice``)."""
        key = (expression, content)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._evaluate(self.compile(expression), content)
            if len(self._verdicts) >= _MAX_CACHED_VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        if isinstance(verdict, RuntimeCelError):
            raise verdict
        return verdict

    def compile(self, expression: str) -> _Program:
        """Return the program for an expression; an invalid one raises CompileError on every call."""
        program = self._programs.get(expression)
        if program is None:
            try:
                program = self._compile(expression)
            except CompileError as error:
                program = error
            if len(self._programs) >= _MAX_CACHED_EXPRESSIONS:
                self._programs.clear()
            self._programs[expression] = program
        if isinstance(program, CompileError):
            raise program
        return program

    def _compile(self, expression: str) -> _Program:
        """Compile with as little of the library as the expression needs: it takes 9 MiB, and its extensions 5 more."""
        if named := _DRIVER_IS.fullmatch(expression):
            return _Program(_SAME_DRIVER, named[2])
        if self._plain is None:
            self._plain = _Runtime(is_extended=False)
        with suppress(CompileError):  # few expressions need the extensions, and invalid ones fail twice
            return _Program(self._plain, self._plain.compile(expression))
        if self._extended is None:
            self._extended = _Runtime(is_extended=True)
        return _Program(self._extended, self._extended.compile(expression))

    def _evaluate(self, program: _Program, content: bytes) -> bool | RuntimeCelError:
        try:
            data = self._devices.get(content)
            if data is None:
                data = _decode(content)
                if len(self._devices) >= _MAX_CACHED_DEVICES:
                    self._devices.clear()
                self._devices[content] = data
            return program.runtime.evaluate(program.compiled, data)
        except RuntimeCelError as error:
            return error


class _SameDriver:
    """Evaluates ``device.driver == "name"`` without the library: most device classes say just that."""

    def evaluate(self, program: str, data: dict[str, Any]) -> bool:
        return bool(data["device.driver"] == program)


_SAME_DRIVER = _SameDriver()


class _Runtime:
    """The CEL library, loaded when the first expression needs it."""

    def __init__(self, *, is_extended: bool) -> None:
        self._extensions: list[Any] = []
        try:
            from cel_expr_python import cel

            if is_extended:
                from cel_expr_python.ext import ext_bindings, ext_optional

                self._extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional()]
        except ImportError:
            raise CompileError(
                f"CEL expressions need a package that is not installed; install it with: {INSTALL_LINE}"
            ) from None
        self._cel = cel
        self._budget = CelBudget()
        offered = functions(self._budget)
        t = cel.Type
        quantity, semver = t.AbstractType(QUANTITY), t.AbstractType(SEMVER)
        declared = self._types(quantity, semver)
        fields = {
            "device.driver": t.STRING,
            "device.allowMultipleAllocations": t.BOOL,
            "device.attributes": t.Map(t.STRING, t.Map(t.STRING, t.DYN)),
            "device.capacity": t.Map(t.STRING, t.Map(t.STRING, quantity)),
        }
        self._strict = self._env(fields, offered, declared, is_checked_only=True)
        self._whole = self._env({"device": t.DYN, **fields}, offered, declared, is_checked_only=True)
        carried = self._types(t.MAP, t.MAP)
        carried_fields = {**fields, "device": t.DYN, "device.capacity": t.Map(t.STRING, t.Map(t.STRING, t.MAP))}
        self._runner = self._env(carried_fields, offered, carried, is_checked_only=False)

    def _types(self, quantity: Any, semver: Any) -> dict[str, Any]:
        t = self._cel.Type
        return {
            "bool": t.BOOL,
            "int": t.INT,
            "double": t.DOUBLE,
            "string": t.STRING,
            "list": t.List(t.DYN),
            "dyn": t.DYN,
            "quantity": quantity,
            "semver": semver,
        }

    def _env(
        self, variables: dict[str, Any], offered: list[CelFunction], types: dict[str, Any], *, is_checked_only: bool
    ) -> Any:
        """Build an environment; the checking one tells quantities from versions, the running one cannot."""
        cel = self._cel
        overloads: dict[str, dict[tuple[str, ...], Any]] = {}
        for function in offered:
            carried = tuple(
                "map" if not is_checked_only and p in ("quantity", "semver") else p for p in function.parameters
            )
            overloads.setdefault(function.name, {}).setdefault(
                carried,
                cel.Overload(
                    f"{function.name}({','.join(carried)})",
                    return_type=types[function.result],
                    parameters=[types[p] for p in function.parameters],
                    is_member=function.is_member,
                    impl=function.call,
                ),
            )
        declarations = [cel.FunctionDecl(name, list(found.values())) for name, found in overloads.items()]
        return cel.NewEnv(variables=variables, functions=declarations, extensions=self._extensions)

    def compile(self, expression: str) -> Any:
        expression = _PRESENCE.sub(lambda found: found[1] or "true", expression)
        try:
            checked = self._check(expression)
            kind = checked.return_type()
            if kind not in (self._cel.Type.BOOL, self._cel.Type.DYN):
                raise CompileError(f"must evaluate to bool or the unknown type, not {kind.name().lower()}")
            if _growth(expression) > _MAX_GROWTH:
                raise CompileError(COST_LIMIT_EXCEEDED)
            return self._runner.compile(expression)
        except (RuntimeError, TypeError) as error:  # TypeError: text that is not valid Unicode
            raise CompileError(f"compilation failed: {_text_of(error)}") from None

    def _check(self, expression: str) -> Any:
        """Type-check; a selector may also use ``device`` as a whole, which hides misspelt fields until run time."""
        try:
            return self._strict.compile(expression)
        except RuntimeError as error:
            unknown = _UNKNOWN_FIELD.search(str(error))
            if unknown is not None and unknown[1] not in _FIELDS:
                text = _UNKNOWN_FIELD.sub(r"undefined field '\1'", _text_of(error)).replace(" (in container '')", "")
                raise CompileError(f"compilation failed: {text}") from None
            if "undeclared reference to 'device'" not in str(error):
                raise
            return self._whole.compile(expression)

    def evaluate(self, program: Any, data: dict[str, Any]) -> bool:
        """Evaluate; a domain that the device does not have reads as an empty map.

        The runtime fails on a missing key. If that key is an unknown domain it gets an empty map and the expression is
        evaluated again: if the key was a missing attribute, the same failure is repeated.
        """
        added: set[str] = set()
        while True:
            self._budget.reset()
            try:
                result = program.eval(data=data)
            except RuntimeError as error:
                if "Iteration budget exceeded" in str(error):
                    raise RuntimeCelError(COST_LIMIT_EXCEEDED) from None
                raise RuntimeCelError(_text_of(error)) from None
            kind = result.type().name()
            if kind == "BOOL":
                return bool(result.value())
            if kind != "ERROR":
                raise _no_bool(kind.lower())
            try:
                error_text = str(result.value())
            except TypeError:  # an optional, which the library cannot return
                raise _no_bool("optional_type") from None
            missing = _KEY_NOT_FOUND.search(error_text)
            if missing is None or missing[1] in added or len(added) > 32:
                raise RuntimeCelError(_phrase(error_text))
            added.add(missing[1])
            data = _with_domain(data, missing[1])


class _Program(NamedTuple):
    """A compiled expression and its evaluator."""

    runtime: _Runtime | _SameDriver
    compiled: Any


def _no_bool(kind: str) -> RuntimeCelError:
    return RuntimeCelError(
        f"CEL result of type {kind} could not be converted to bool: unsupported type conversion from '{kind}' to bool"
    )


def _text_of(error: Exception) -> str:
    if isinstance(error, TypeError):
        return "the expression is not valid text"
    return _STATUS_SUFFIX.sub("", _STATUS_PREFIX.sub("", str(error)))


def _phrase(error: str) -> str:
    """Translate an error of the runtime to upstream's wording."""
    missing = _KEY_NOT_FOUND.search(error)
    if missing is not None:
        return f"no such key: {missing[1]}"
    if "No matching overloads found" in error:
        return "no such overload"
    index = _INDEX_ERROR.search(error)
    if index is not None:
        return f"index out of bounds: {index[1]}"
    text = _STATUS_PREFIX.sub("", error)
    return {"divide by zero": "division by zero", "modulus by zero": "modulus by zero"}.get(text, text)


def _growth(expression: str) -> float:
    """Bound how much larger than its parts a value can become: concatenations multiply through cel.bind."""
    binds = expression.count("cel.bind")
    return float((expression.count("+") / binds + 1) ** min(binds, 64)) if binds else 1.0


def _decode(content: bytes) -> dict[str, Any]:
    """Decode a device's content into the variables of an expression."""
    driver, shareable, attributes, capacity = msgspec.msgpack.decode(
        content, type=tuple[str, bool | None, dict[str, DeviceAttribute], dict[str, DeviceCapacity]]
    )
    by_domain: dict[str, dict[str, Any]] = {}
    for name, attribute in attributes.items():
        domain, _, id = name.rpartition("/")
        try:
            by_domain.setdefault(domain or driver, {})[id] = _attribute_value(attribute)
        except CelFunctionError as error:
            raise RuntimeCelError(f"attribute {name}: {error}") from None
    amounts: dict[str, dict[str, Any]] = {}
    for name, amount in capacity.items():
        domain, _, id = name.rpartition("/")
        try:
            amounts.setdefault(domain or driver, {})[id] = encode_quantity(parse_quantity(amount.value))
        except ParseError as error:
            raise RuntimeCelError(f"capacity {name}: {error}") from None
    return _variables(driver, bool(shareable), by_domain, amounts)


def _variables(driver: str, shareable: bool, attributes: dict[str, Any], capacity: dict[str, Any]) -> dict[str, Any]:
    device = {
        "driver": driver,
        "allowMultipleAllocations": shareable,
        "attributes": attributes,
        "capacity": capacity,
    }
    return {"device": device, **{f"device.{field}": value for field, value in device.items()}}


def _with_domain(data: dict[str, Any], domain: str) -> dict[str, Any]:
    device = data["device"]
    return _variables(
        device["driver"],
        device["allowMultipleAllocations"],
        {domain: {}, **device["attributes"]},
        {domain: {}, **device["capacity"]},
    )


def _attribute_value(attribute: DeviceAttribute) -> Any:
    if attribute.int_value is not None:
        return attribute.int_value
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.version_value is not None:
        try:
            return encode_version(attribute.version_value)
        except CelFunctionError as error:
            raise CelFunctionError(f"parse semantic version: {error}") from None
    raise CelFunctionError("unsupported attribute value")
