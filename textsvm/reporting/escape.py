"""Text from documents -> what a page can hold and only shows."""

from __future__ import annotations

from html import escape
from typing import Any

from textsvm.errors import printable

__all__ = ["printable", "safe"]


def safe(value: Any) -> str:
    """Text as HTML that shows it: escaped, and what no page may hold replaced."""
    return escape(printable(str(value)))
