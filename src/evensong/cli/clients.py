"""What the commands of programs have in common: which daemon they talk to, how events look."""

import argparse
import base64
from pathlib import Path

from evensong.cli.targets import states_of
from evensong.cli.text import printable
from evensong.client.address import SCHEME
from evensong.client.message import Message
from evensong.core.groups.events import OrderId, View


def add_target(parser: argparse.ArgumentParser) -> None:
    """Declare which daemon is meant, and who is asking."""
    parser.add_argument(
        "target",
        metavar="CONFIG|STATE_DIR|ADDRESS",
        help="a daemon's settings, its state directory, or unix:///path/to/client.sock",
    )
    parser.add_argument("--name", default="", help="a name for people, part of the private name")


def socket_of(target: str) -> str:
    """Return the address of the daemon that is meant."""
    if target.startswith(SCHEME) or Path(target).is_socket() or "://" in target:
        return target
    (state,) = states_of([Path(target)])
    return str(state)


def order_json(order: OrderId | None) -> dict[str, object] | None:
    """Return a place in the order as JSON has it; null for what is not ordered."""
    return order and {"ring": str(order.ring_id), "seq": order.seq, "sub": order.sub}


def event_json(event: Message | View) -> dict[str, object]:
    """Return an event as JSON has it; a payload that is no text is told in base64."""
    if isinstance(event, View):
        return {
            "event": "view",
            "group": event.group,
            "members": list(map(str, event.members)),
            "joined": list(map(str, event.joined)),
            "left": list(map(str, event.left)),
            "cause": event.cause.name.lower(),
            "primary": event.primary,
            "transitional": event.transitional,
        }
    try:
        payload = {"payload": event.payload.decode()}
    except UnicodeDecodeError:
        payload = {"payload_base64": base64.b64encode(event.payload).decode()}
    return {
        "event": "message",
        "groups": list(event.groups),
        "sender": str(event.sender),
        "id": str(event.id),
        "order": order_json(event.order),
        "service": event.service.value,
        "reduced": event.reduced,
        **payload,
    }


def event_text(event: Message | View) -> str:
    """Return an event as a line for people, whatever names and payload hold."""
    if isinstance(event, View):
        kind = "transitional view" if event.transitional else "view"
        members = " ".join(map(str, event.members))
        return printable(f"-- {kind} of {event.group} ({event.cause.name.lower()}): {members}")
    text = event.payload.decode(errors="backslashreplace")
    return printable(f"{event.sender} to {' '.join(event.groups)}: {text}")
