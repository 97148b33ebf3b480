"""What state transfer asks the library of a member to do, in order; the union is closed."""

from typing import Final, TypeAlias, final

from evensong.core.groups.events import View
from evensong.core.groups.notes import Place


@final
class Take:
    """Take a snapshot now, and hand it to `taken` with this place."""

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        self.place: Final = place


@final
class Restore:
    """Replace the state by a snapshot."""

    __slots__ = ("snapshot",)

    def __init__(self, snapshot: bytes) -> None:
        self.snapshot: Final = snapshot


@final
class Merge:
    """Replace the state by what several snapshots come to; everybody has the same ones."""

    __slots__ = ("snapshots",)

    def __init__(self, snapshots: tuple[bytes, ...]) -> None:
        self.snapshots: Final = snapshots


@final
class Apply:
    """Hand a message to the application."""

    __slots__ = ("message",)

    def __init__(self, message: object) -> None:
        self.message: Final = message


@final
class Show:
    """Hand a view to the application."""

    __slots__ = ("view",)

    def __init__(self, view: View) -> None:
        self.view: Final = view


Step: TypeAlias = Take | Restore | Merge | Apply | Show
