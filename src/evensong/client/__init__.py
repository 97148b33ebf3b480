"""The library that programs use: connections, groups, messages, receipts.

Pure, for every kind of program: `dialogue` (bytes in, bytes out), `streams`, `replica`, `flights`,
`message`. Thin, around it: `connection` for asyncio, `blocking` for programs without.
"""
