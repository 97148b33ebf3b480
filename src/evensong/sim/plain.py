"""Plain data to and from JSON: frozen dataclasses and named tuples, checked by their annotations.

Setups and fault plans are files that people keep and edit, so whatever does not fit is refused with
the place where it stands (`plan[3].for_us: expected an integer`).
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Final, TypeVar, get_args, get_origin, get_type_hints

from evensong.errors import BadScenario

T = TypeVar("T")

NUMBER_END: Final = 2**64  # no number of ours is as large
DEPTH_MAX: Final = 50  # brackets within brackets
_DIGITS_MAX: Final = len(str(NUMBER_END))
_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)


def parse_json(text: str, what: str) -> object:
    """Read JSON of any origin; what cannot be read is refused with its line."""
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += (found[0] in "[{") - (found[0] in "]}")
        if depth > DEPTH_MAX:
            line = text.count("\n", 0, found.start()) + 1
            raise BadScenario(f"{what}: line {line}: more than {DEPTH_MAX} brackets deep")
    try:
        value: object = json.loads(text, parse_int=_parse_int)
    except json.JSONDecodeError as error:
        raise BadScenario(f"{what}: line {error.lineno}: {error.msg}") from None
    return value


def _parse_int(digits: str) -> int:
    # Whoever reads the field refuses what is out of bounds, and knows the place.
    return int(digits) if len(digits) <= _DIGITS_MAX else NUMBER_END


def to_plain(value: object) -> object:
    """Turn a value into what `json.dumps` takes."""
    if isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        fields: tuple[str, ...] = getattr(value, "_fields", ())
        if fields:
            return {name: to_plain(part) for name, part in zip(fields, value, strict=True)}
        return [to_plain(part) for part in value]
    raise TypeError(f"not plain data: {value!r}")


def from_plain(
    cls: type[T], value: object, place: str, given: Mapping[str, object] | None = None
) -> T:
    """Build a dataclass or named tuple from what `json.loads` gave; `given` parts are ready."""
    if not isinstance(value, Mapping):
        raise BadScenario(f"{place}: expected an object")
    hints = fields_of(cls)
    for name in value:
        if name not in hints:
            raise BadScenario(f"{place}.{name}: no such field; allowed: {', '.join(hints)}")
    parts = {name: _read(hints[name], part, f"{place}.{name}") for name, part in value.items()}
    parts.update(given or {})
    for name in required_of(cls):
        if name not in parts:
            raise BadScenario(f"{place}.{name}: is missing")
    return cls(**parts)


def required_of(cls: type[object]) -> list[str]:
    """Return the fields of a dataclass or named tuple that have no default."""
    if dataclasses.is_dataclass(cls):
        none = dataclasses.MISSING
        return [
            field.name
            for field in dataclasses.fields(cls)
            if field.default is none and field.default_factory is none
        ]
    defaults: Mapping[str, object] = getattr(cls, "_field_defaults", {})
    return [name for name in fields_of(cls) if name not in defaults]


def fields_of(cls: type[object]) -> dict[str, object]:
    """Return the annotations of the fields of a dataclass or named tuple."""
    hints: dict[str, object] = get_type_hints(cls)
    if dataclasses.is_dataclass(cls):
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    return hints


def _read(hint: object, value: object, place: str) -> object:
    if hint is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadScenario(f"{place}: expected an integer")
        return _bounded(value, place)
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadScenario(f"{place}: expected a number")
        return float(_bounded(value, place) if isinstance(value, int) else value)
    if hint is bool or hint is str:
        if not isinstance(value, bool if hint is bool else str):
            raise BadScenario(f"{place}: expected a {'truth value' if hint is bool else 'string'}")
        return value
    if get_origin(hint) is tuple:
        return _read_tuple(hint, value, place)
    assert isinstance(hint, type)
    return from_plain(hint, value, place)


def _bounded(number: int, place: str) -> int:
    if not -NUMBER_END < number < NUMBER_END:
        raise BadScenario(f"{place}: a number too large for anything here")
    return number


def _read_tuple(hint: object, value: object, place: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise BadScenario(f"{place}: expected a list")
    args = get_args(hint)
    if args[-1] is not Ellipsis:
        if len(value) != len(args):
            raise BadScenario(f"{place}: expected {len(args)} items")
        hints = args
    else:
        hints = (args[0],) * len(value)
    return tuple(
        _read(part_hint, part, f"{place}[{index}]")
        for index, (part_hint, part) in enumerate(zip(hints, value, strict=True))
    )
