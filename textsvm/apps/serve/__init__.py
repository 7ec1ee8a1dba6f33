"""`textsvm serve`: trained models behind HTTP.

`app` is the application, which `textsvm.runtime.http` runs on a socket. Bodies of requests go unread to
other processes, `worker`, which load the models and predict, so long predictions and loading delay no
connection. The processes exchange frames over pipes: `FRAME` (length of the body, number of the request, its
kind or the status of its answer), then a body.
"""

import struct
from collections.abc import Iterator

FRAME = struct.Struct("<IIH")
LOAD, PREDICT, DESCRIBE, CANCEL = range(4)
APART = 0  #: Status of a request with a text that is too long to be predicted among others
#: Number of a frame that answers no request but shows that the worker is at work, or, with a body, names a
#: model that must be loaded again.
PROGRESS_NUMBER = 0


def frames(received: bytearray) -> Iterator[tuple[int, int, bytes]]:
    """Take complete frames: number, kind or status, and body."""
    while len(received) >= FRAME.size:
        size, number, kind = FRAME.unpack_from(received)
        end = FRAME.size + size
        if len(received) < end:
            return
        body = bytes(received[FRAME.size : end])
        del received[:end]
        yield number, kind, body
