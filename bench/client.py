"""How fast the library itself is, without daemon and socket: bytes to messages, messages to bytes.

python -m bench.client [--size 100] [--messages 500000]
"""

import argparse
import asyncio
import socket
import time

from evensong.client.connection import Events
from evensong.client.dialogue import Dialogue
from evensong.client.link import Link
from evensong.client.message import Message
from evensong.client.packing import pack
from evensong.core.groups.events import Destination, MemberId, OrderId
from evensong.core.groups.frame import decode_head, encode_whole
from evensong.core.ids import RingId
from evensong.ipc import frames, wire
from evensong.ipc.splitter import Splitter

FRAME_MAX = 65_536
CHUNK = 256 * 1_024
RING = RingId(8, 1)
ME = MemberId(1, 1, 1, "bench")
OTHER = MemberId(2, 1, 1, "other")


def welcomed() -> Dialogue:
    dialogue = Dialogue("bench")
    dialogue.feed(wire.encode_welcome(1, ME, FRAME_MAX, 2**24, 2**30))
    dialogue.feed(wire.encode_destination(0, Destination(OTHER, (str(ME),))))
    dialogue.streams.claim(dialogue.streams.everything)
    dialogue.take_output()
    return dialogue


def deliveries(size: int, messages: int) -> list[bytes]:
    told: list[bytes | memoryview] = []
    number = 1
    for seq, bodies in enumerate(pack([bytes(size)] * messages, FRAME_MAX), start=1):
        frame = encode_whole(1, number, 0, 0, bodies)
        number += len(bodies)
        told.extend(wire.encode_deliver(0, OrderId(RING, seq, 0), RING, False, frame))
    stream = b"".join(told)
    return [stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK)]


def receive_batches(chunks: list[bytes]) -> int:
    dialogue = welcomed()
    count = 0
    for chunk in chunks:
        dialogue.feed(chunk)
        events = dialogue.streams.everything.take()
        count += len([event.payload for event in events if isinstance(event, Message)])
    return count


async def receive_events(chunks: list[bytes]) -> int:
    dialogue = welcomed()
    stream = dialogue.streams.everything
    here, there = socket.socketpair()
    here.setblocking(False)
    link = Link(dialogue, here)
    count = 0
    for chunk in chunks:
        dialogue.feed(chunk)
        async for _ in Events(link, stream):
            count += 1
            if stream.is_drained():
                break
    link.abort()
    there.close()
    return count


def send_many(size: int, messages: int) -> int:
    dialogue = welcomed()
    payloads = [bytes(size)] * messages
    for bodies in pack(payloads, dialogue.frame_max):
        dialogue.send_frame(dialogue.destination("g"), bodies, 0)
    return len(dialogue.take_output())


def send_each(size: int, messages: int) -> int:
    dialogue = welcomed()
    for _ in range(messages):
        dialogue.send("g", bytes(size), 0)
    return len(dialogue.take_output())


def receipts(size: int, messages: int) -> int:
    """Send, and take in the receipts."""
    dialogue = welcomed()
    for _ in range(messages):
        dialogue.send("g", bytes(size), 0)
    told: list[bytes] = []
    for frame in Splitter(2**24).feed(dialogue.take_output()):
        if frame.opcode == frames.SEND:
            head = decode_head(frame.body)
            order = OrderId(RING, head.first_no, 0)
            told.append(wire.encode_receipt(head.first_no, head.places, order, False))
    dialogue.feed(b"".join(told))
    return dialogue.in_flight


def rate(name: str, messages: int, seconds: float) -> None:
    print(f"{name:<34} {messages / seconds / 1e3:8.0f} thousand messages/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--messages", type=int, default=500_000)
    args = parser.parse_args()
    chunks = deliveries(args.size, args.messages)
    begin = time.perf_counter()
    assert receive_batches(chunks) == args.messages
    rate("bytes to batches", args.messages, time.perf_counter() - begin)
    begin = time.perf_counter()
    assert asyncio.run(receive_events(chunks)) == args.messages
    rate("bytes to events, one by one", args.messages, time.perf_counter() - begin)
    begin = time.perf_counter()
    assert send_many(args.size, args.messages)
    rate("send_many to bytes", args.messages, time.perf_counter() - begin)
    begin = time.perf_counter()
    assert send_each(args.size, args.messages)
    rate("send, one by one, to bytes", args.messages, time.perf_counter() - begin)
    begin = time.perf_counter()
    assert receipts(args.size, args.messages) == 0
    rate("send and receipt, one by one", args.messages, time.perf_counter() - begin)


if __name__ == "__main__":
    main()
