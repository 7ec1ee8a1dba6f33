"""One name for a message, wherever it was delivered: the key of what was learnt from it.

SHA-256 over the fields and the body, less what delivery and mail programs change:

- fields that they add or rewrite (`DELIVERY`, `DELIVERY_PREFIXES`), and the "From " line of an mbox;
- case of field names, folding and other runs of blanks in fields;
- CR LF or LF at the ends of lines, empty lines at the end, ">From " (or ">>From ") where an mbox quoted it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from textsvm.mail.fields import fields, header

_CHUNK = 1 << 20

#: Fields that delivery, filters on the way and mail programs add or rewrite.
DELIVERY = frozenset(
    b"received x-received return-path delivered-to x-delivered-to x-delivered x-original-to envelope-to "
    b"x-envelope-to x-envelope-from x-rcpt-to delivery-date x-delivery-date x-forwarded-to x-forwarded-for "
    b"resent-from resent-to resent-date resent-message-id resent-sender received-spf "
    b"authentication-results dkim-signature dkim-filter domainkey-signature domainkey-status x-bogosity "
    b"x-textsvm x-crm114-status x-scanned-by x-quarantine-id x-sieve x-loop status x-status x-keywords "
    b"x-uid x-uidl x-imap x-imapbase x-label x-folder x-account-key lines content-length xref bytes".split()
)
#: What the names of such fields begin with.
DELIVERY_PREFIXES = (
    b"x-spam-", b"x-originating-", b"arc-", b"x-arc-", b"x-dkim-", b"x-virus-", b"x-amavis-", b"x-mozilla-",
    b"x-evolution-", b"x-gm-", b"x-gmail-", b"x-google-", b"x-getmail-", b"x-fetchmail-", b"x-ms-exchange-",
    b"x-microsoft-antispam", b"x-forefront-", b"x-rspamd-", b"x-dspam-", b"x-dovecot-", b"x-proofpoint-",
)  # fmt: skip


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal over what delivery does not change.

    Parameters
    ----------
    data : bytes
        A raw message.
    """
    found = header(data)
    sha = hashlib.sha256()
    position = found.end
    for name, value in sent(data):
        sha.update(name.lower() + b":" + value + b"\n")
    end = _text_end(data)
    if not found.there and position < end and not data.startswith((b"\n", b"\r\n"), position):
        sha.update(b"\n")  # the empty line that passing it on puts there
    for chunk in _chunks(data, position, end):
        for change in (b"\r\n", b"\n"), (b"\n>From ", b"\nFrom "), (b"\n>>From ", b"\nFrom "):
            chunk = chunk.replace(*change)
        sha.update(chunk)
    return sha.hexdigest()


def sent(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The fields of a header that were there before it was delivered: names, and values unfolded."""
    found = header(data)
    for start, stop in fields(data, found.start, found.end):
        name, _, value = data[start:stop].partition(b":")
        name = name.strip()
        lower = name.lower()
        if lower not in DELIVERY and not lower.startswith(DELIVERY_PREFIXES):
            yield name, b" ".join(value.split())


def _text_end(data: bytes) -> int:
    """Where the empty lines at the end begin."""
    end = len(data)
    while end:
        start = max(0, end - 65536)
        kept = len(data[start:end].rstrip(b"\r\n"))
        if kept:
            return start + kept
        end = start
    return 0


def _chunks(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """The body in pieces that begin with the end of a line, so that no ">From " and no CR LF is torn."""
    while start < end:
        stop = min(end, start + _CHUNK)
        line = data.rfind(b"\n", start + 2, stop) if stop < end else -1
        if line >= 0:
            stop = line
        if stop < end and data[stop - 1] == 0x0D:
            stop -= 1
        yield data[start:stop]
        start = stop
