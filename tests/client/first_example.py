"""The README's first example: two programs, one group. `python first_example.py ADDRESS NAME`"""

import asyncio
import sys

import evensong
from evensong import Message, View


async def main(address: str, name: str) -> None:
    async with evensong.connect(address, name=name) as es, es.join("orders") as orders:
        await orders.send(f"{name} is here".encode())
        async for event in orders:
            match event:
                case View(members=members):
                    print("members:", *[member.user for member in members], flush=True)
                case Message(payload=payload, sender=sender):
                    print(f"{sender.user}: {payload.decode()}", flush=True)


asyncio.run(main(*sys.argv[1:]))
