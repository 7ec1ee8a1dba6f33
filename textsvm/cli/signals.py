"""SIGTERM and SIGHUP end a command as Ctrl-C does: what is half-written is removed, and one line is said."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

_came: list[signal.Signals] = []
#: Seconds in which the same end may be asked for again, as `timeout` and terminals do: tidying up goes on.
_TWICE = 1.0
_last = -_TWICE


def watch() -> None:
    """Take them from now on, but for those that are ignored, as under nohup, or taken by others."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _end)


def _forget() -> None:
    """Leave a process that was forked off to who ends it."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _end(number: int, frame: Any) -> None:
    global _last
    last, _last = _last, time.monotonic()
    _came.append(signal.Signals(number))
    if _last - last >= _TWICE:
        raise KeyboardInterrupt


def came() -> signal.Signals:
    """The first of them, by which the command is ended; SIGINT if it was ended otherwise."""
    return _came[0] if _came else signal.SIGINT
