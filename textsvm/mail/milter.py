"""A milter for Postfix and Sendmail: the decision in the header of each message, before it is queued
(kilter.service).

Where there is no decision the message is accepted as it is; what happens while the milter is down is the mail
server's to say (Postfix: milter_default_action). The header of a message comes in fields, without its ends of
lines: the message is put together as local delivery would write it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textsvm.errors import InputError
from textsvm.mail.passing import our_fields
from textsvm.mail.spamd import LARGEST, Refused

if TYPE_CHECKING:
    from textsvm.mail.filter import Decision

_OURS = ("x-textsvm", "x-spam-flag")


async def milter(address: str, classify: Callable[[bytes], Awaitable[Decision]]) -> Callable[[], None]:
    """Listen as a milter, and return what ends that.

    Parameters
    ----------
    address : str
        A port of 127.0.0.1, or the path of a Unix socket that is made (mode 0660: the mail server is in the
        group that owns its folder).
    classify : coroutine function

    Raises
    ------
    InputError
        If kilter.service is not installed, or the address cannot be had.
    """
    try:
        import anyio
        from kilter.service import Runner
    except ImportError:
        raise InputError(
            'a milter needs kilter.service (Python 3.11 or later): pip install "textsvm[mail]"'
        ) from None

    try:
        if address.isdecimal():
            listener: Any = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=int(address))
        else:
            listener = await anyio.create_unix_listener(address, mode=0o660)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen at {address}: {error}") from error
    task = asyncio.create_task(listener.serve(Runner(_marking(classify))))

    def close() -> None:
        task.cancel()
        if not address.isdecimal():
            with suppress(OSError):
                os.unlink(address)

    return close


def _marking(classify: Callable[[bytes], Awaitable[Decision]]) -> Any:
    """The filter that kilter runs for each message."""
    from kilter.protocol import Accept
    from kilter.protocol.messages import Header
    from kilter.service import END
    from kilter.service.options import AFTER, examine_body, examine_headers, examine_sender

    # Two things are asked for so that kilter.service knows where it is: the sender, without which it takes no
    # second message of a connection, and the end of the header, without which it loses a part of the body.
    @examine_sender()
    @examine_headers(can_respond=AFTER, can_add=True, can_modify=True)
    @examine_body()
    async def mark(session: Any) -> Any:
        header = await _header(session)
        data = await _message(header, session)
        if len(data) > LARGEST:
            return Accept()
        try:
            decision = await classify(data)
        except Refused:
            return Accept()
        for field in header:
            if field.name.lower() in _OURS:
                await session.headers.delete(field)
        for line in our_fields(decision):
            name, _, value = line.partition(": ")
            await session.headers.insert(Header(name, value.encode()), END)
        return Accept()

    return mark


async def _header(session: Any) -> list[Any]:
    async with session.headers as fields:
        return [field async for field in fields]


async def _message(header: list[Any], session: Any) -> bytes:
    parts = [field.name.encode() + b": " + bytes(field.value) + b"\n" for field in header]
    size = 0
    async with session.body as body:
        parts.append(b"\n")
        async for chunk in body:
            size += len(chunk)
            if size <= LARGEST:
                parts.append(bytes(chunk))
    return b"".join(parts).replace(b"\r\n", b"\n") if size <= LARGEST else bytes(LARGEST + 1)
