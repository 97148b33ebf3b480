"""HTML and SVG from plain values: whatever is not marked as markup is text, and is escaped."""

from html import escape
from typing import TYPE_CHECKING, Final, TypeAlias, final

if TYPE_CHECKING:
    from collections.abc import Iterable

VOID: Final = frozenset({"meta", "br", "hr", "line", "rect", "path", "circle", "use"})


@final
class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content: TypeAlias = "Markup | str | int | Iterable[Content] | None"
Value: TypeAlias = str | int | float | bool | None


def tag(name: str, /, *content: Content, **attributes: Value) -> Markup:
    """Return an element.

    `class_` is the attribute `class`, and `aria_label` is `aria-label`; one that is `None` or
    `False` is left out, `True` stands without a value.
    """
    told = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID and not content:
        return Markup(f"<{name}{told}/>" if name != "meta" else f"<{name}{told}>")
    return Markup(f"<{name}{told}>{join(content)}</{name}>")


def join(content: Content) -> Markup:
    """Return content one after the other; strings that are not markup are escaped."""
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(escape(content, quote=False))
    if isinstance(content, int):
        return Markup(str(content))
    return Markup("".join(join(one) for one in content))


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(text)}"'


def slug(text: str) -> str:
    """Return an anchor for a text: the same text gives the same, and different texts differ."""
    return "".join(one if one.isascii() and one.isalnum() else f"-{ord(one):x}-" for one in text)
