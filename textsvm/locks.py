"""Locks that outlive a fork: a thread that held one does not exist in the child, and never gives it back."""

from __future__ import annotations

import os
import threading
from typing import Any


class Lock:
    """A reentrant lock that is free in a forked child, whoever held it in the parent."""

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *failed: Any) -> None:
        self._lock.release()
