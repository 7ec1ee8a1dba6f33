"""Archives of hostile members: names, links, sizes, archives in archives, cut off and flipped."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

from . import _whole
from ._mutations import mutated
from ._reading import Target

NAMES = (
    *(
        "pos/1.txt",
        "neg/2.txt",
        "../x",
        "/etc/passwd",
        "C:\\x",
        "a\n\x1b[31mb",
        "\udcff",
        "‮",
        "x" * 250,
        "",
        ".",
        "t.csv",
        "m.eml",
    ),
    *(
        "train/pos/1",
        "a/../b",
        "__MACOSX/x",
        "a.npy",
        "inner.tar.gz",
        "a/b/c/d/e/f",
        "pos/1.txt",
        "nul\x00l",
        "é" * 120,
    ),
)
CONTENTS = (
    b"",
    b"a text",
    b"label\ttext\n",
    b"text,label\na,b\n",
    b"From: a\nSubject: b\n\nc\n",
    b"\x00\x01\x02" * 40,
)
TYPES = (
    tarfile.REGTYPE,
    tarfile.REGTYPE,
    tarfile.REGTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.FIFOTYPE,
    tarfile.CHRTYPE,
)


def tar(random) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(
        fileobj=stream, mode="w", format=random.choice((0, 1, 2)), errors="surrogateescape"
    ) as archive:
        for _ in range(random.randint(0, 6)):
            info, data = tarfile.TarInfo(random.choice(NAMES)), _content(random)
            info.size, info.type, info.linkname = len(data), random.choice(TYPES), random.choice(NAMES)
            if random.random() < 0.1:
                info.pax_headers = {
                    random.choice(("size", "GNU.sparse.map", "path", "mtime")): random.choice(
                        ("-1", "x", "1,2")
                    )
                }
            try:
                archive.addfile(info, io.BytesIO(data))
            except (ValueError, UnicodeError, OSError):
                continue
    return stream.getvalue()


def zipped(random) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", random.choice((0, 8, 12, 14))) as archive:
        for _ in range(random.randint(0, 6)):
            info = zipfile.ZipInfo(random.choice(NAMES) or "x")
            info.external_attr = random.choice((0, 0o120777 << 16, 0o40755 << 16, 0o644 << 16))
            info.compress_type = archive.compression
            try:
                archive.writestr(info, _content(random))
            except (UnicodeError, ValueError):
                continue
    return stream.getvalue()


def _content(random) -> bytes:
    if random.random() < 0.1:
        return random.choice((tar, zipped))(random)
    return random.choice(CONTENTS)


def make(random, given):
    data = random.choice((tar, zipped, _content))(random)
    for _ in range(random.choice((0, 0, 1, 1, 2, 8))):
        data = random.choice((gzip.compress, bz2.compress, lzma.compress))(data)
        if random.random() < 0.2:
            data = mutated(random, [data])
    return (
        mutated(random, [data], (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x1f\x8b", b"ustar"))
        if random.random() < 0.5
        else data
    )


run = Target("t.tar.gz", lambda: [], make=make, whole=_whole.archived).run
