"""Names that a program gives: refused here, in words, before anything is sent.

A program may hand over anything; what is no text at all is refused as a name that cannot be one.
"""

from collections.abc import Iterable
from typing import Final

from evensong.client.address import default_name
from evensong.core.groups.events import is_group_name, is_user_name, parse_private_name
from evensong.core.groups.limits import GROUP_NAME_BYTES_MAX, GROUPS_MAX, USER_NAME_BYTES_MAX
from evensong.errors import BadName

GROUP_RULE: Final = f"a group is 1 to {GROUP_NAME_BYTES_MAX} bytes of text, the first not # or \\0"
USER_RULE: Final = f"a name is 1 to {USER_NAME_BYTES_MAX} bytes of text without #"
TO_RULE: Final = f"a destination is 1 to {GROUPS_MAX} groups or private names (str(member))"


def is_reserved(name: str) -> bool:
    """Whether a name is the library's own."""
    return name.startswith("\0")


def may_be_group(name: object) -> bool:
    """Whether a program may call a group so."""
    return isinstance(name, str) and is_group_name(name) and not is_reserved(name)


def several(to: Iterable[str]) -> tuple[str, ...]:
    """Return names, each once."""
    try:
        return tuple(dict.fromkeys(to))
    except TypeError:
        raise BadName(f"{to!r} is no text, nor several: {TO_RULE}") from None


def check_destination(to: object, names: tuple[object, ...]) -> None:
    """Refuse what cannot be sent to."""
    if not 0 < len(names) <= GROUPS_MAX:
        raise BadName(f"{len(names)} names: {TO_RULE}")
    for name in names:
        if not isinstance(name, str):
            raise BadName(f"{to!r} is no text, nor several: {TO_RULE}")
        if not may_be_group(name) and parse_private_name(name) is None:
            raise BadName(f"{name!r} is neither a group nor a private name; {GROUP_RULE}")


def name_of_program(name: object) -> str:
    """Return the name that a program has chosen for itself, or one for it if it has not."""
    if name == "":
        return default_name()
    if not isinstance(name, str) or not is_user_name(name):
        raise BadName(f"{name!r}: {USER_RULE}")
    return name
