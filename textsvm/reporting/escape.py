"""Text from documents -> what a page can hold and only shows."""

from __future__ import annotations

from html import escape
from typing import Any


def safe(value: Any) -> str:
    """Text as HTML that shows it: escaped, and what no page may hold replaced."""
    return escape(printable(str(value)))


def printable(text: str) -> str:
    """Lone surrogates and control characters replaced: UTF-8 or HTML cannot hold them."""
    return "".join(
        "\ufffd" if "\ud800" <= c <= "\udfff" or (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" else c
        for c in text
    )
