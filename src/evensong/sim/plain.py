"""Plain data to and from JSON: frozen dataclasses and named tuples, checked by their annotations.

Setups and fault plans are files that people keep and edit, so whatever does not fit is refused with
the place where it stands (`plan[3].for_us: expected an integer`).
"""

import dataclasses
from collections.abc import Mapping
from typing import TypeVar, get_args, get_origin, get_type_hints

from evensong.errors import BadScenario

T = TypeVar("T")


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
    try:
        return cls(**parts, **(given or {}))
    except TypeError as error:
        raise BadScenario(f"{place}: {error}") from None


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
        return value
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadScenario(f"{place}: expected a number")
        return float(value)
    if hint is bool or hint is str:
        if not isinstance(value, bool if hint is bool else str):
            raise BadScenario(f"{place}: expected a {'truth value' if hint is bool else 'string'}")
        return value
    if get_origin(hint) is tuple:
        return _read_tuple(hint, value, place)
    assert isinstance(hint, type)
    return from_plain(hint, value, place)


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
