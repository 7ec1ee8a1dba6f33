"""Files as other programs write them, and what is to be read: (content, ids, texts or rows, labels)."""

from __future__ import annotations

import csv
import io
import json
import mailbox
import random
import tarfile
import tempfile
import zipfile
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html import escape
from pathlib import Path
from typing import Any

Whole = tuple[Any, "list[str] | None", list[Any], list[Any]]

_PIECES = (
    *("a", "b", "word", " ", "  ", ",", ";", "|", '"', "'", "\\", "é", "日本", "😀", "=1+1", "1", "-", ":"),
    *("\u202e", "\u2028", "\x85", "\v", "\f", "\ufeff", "<b>", "&amp;", "#", "{}", "[", ">", "From "),
)  # fmt: skip
_BREAKS = ("\n", "\r\n", "\r", "\n\n", "\t")
_LABELS = ("ham", "spam", "é 日", "a;b", "x,y", '"q"', "=1", "0", "-1")


def text(random: random.Random, more: tuple[str, ...] = ()) -> str:
    """A text that is not blank and does not begin or end in white space."""
    middle = "".join(random.choice((*_PIECES, *more)) for _ in range(random.randint(0, 20)))
    return f"t{middle}t"


def _rows(random: random.Random, more: tuple[str, ...] = ()) -> tuple[list[str], list[str], list[Any]]:
    n = random.randint(2, 8)
    labels = [random.choice(_LABELS) for _ in range(n)]
    return [f"r{i}" for i in range(n)], [text(random, more) for _ in range(n)], labels


def comma_separated(random: random.Random) -> Whole:
    """As Python's csv writes it."""
    ids, texts, labels = _rows(random, _BREAKS)
    stream = io.StringIO()
    quoting, mark = random.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)), random.choice(",;\t|")
    # A lone carriage return is not quoted where lines end with a line feed.
    end = "\r\n" if quoting == csv.QUOTE_MINIMAL else random.choice(("\n", "\r\n"))
    writer = csv.writer(stream, delimiter=mark, quoting=quoting, lineterminator=end)
    writer.writerows([("id", "text", "label"), *zip(ids, texts, labels, strict=True)])
    charset = random.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16"))
    return stream.getvalue().encode(charset), ids, texts, labels


def tab_separated(random: random.Random) -> Whole:
    ids, texts, labels = _rows(random)
    lines = ["id\ttext\tlabel", *map("\t".join, zip(ids, texts, labels, strict=True))]
    return random.choice(("\n", "\r\n")).join([*lines, ""]).encode(), ids, texts, labels


def json_lines(random: random.Random) -> Whole:
    ids, texts, labels = _rows(random, (*_BREAKS, "\x00", "\ud800", "\x1b[31m"))
    several = random.random() < 0.3
    labels = [(each, f"{each}2") if several else each for each in labels]
    rows = [
        dict(zip(("id", "text", "label"), row, strict=True)) for row in zip(ids, texts, labels, strict=True)
    ]
    ascii = any("\ud800" in each for each in texts) or random.random() < 0.5
    data = "".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in rows)
    return data.encode(), ids, texts, labels


def parquet(random: random.Random) -> Whole:
    import pyarrow
    from pyarrow import parquet

    ids, texts, labels = _rows(random, (*_BREAKS, "\x00"))
    coded = pyarrow.array(labels)
    columns = [ids, texts, coded.dictionary_encode() if random.random() < 0.5 else coded]
    stream = io.BytesIO()
    table, packing = pyarrow.table(columns, names=["id", "text", "label"]), ("none", "snappy", "gzip", "zstd")
    parquet.write_table(
        table, stream, compression=random.choice(packing), row_group_size=random.choice((1, 3, 99))
    )
    return stream.getvalue(), ids, texts, labels


def labelled_lines(random: random.Random) -> Whole:
    _, texts, labels = _rows(random, ("\t",))
    lines = [f"{label}\t{each}\n" for label, each in zip(labels, texts, strict=True)]
    return "".join(lines).encode(), None, texts, labels


def class_folders(random: random.Random) -> Whole:
    n = random.randint(2, 8)
    # Files that all hold one tab a line are seen as lines of labels, unless the format is named.
    texts = [text(random, _BREAKS[:-1]) for _ in range(n)]
    labels = [random.choice(("ham", "spam", "é 日")) for _ in range(n)]
    names = [f"{label}/{i}.txt" for i, label in enumerate(labels)]
    found = sorted(zip(names, texts, labels, strict=True))
    return dict(zip(names, map(str.encode, texts), strict=True)), *(
        list(each) for each in zip(*found, strict=True)
    )


def archived(random: random.Random) -> Whole:
    """Such folders in an archive, in its order."""
    files, *_ = class_folders(random)
    stream = io.BytesIO()
    if random.random() < 0.4:
        with zipfile.ZipFile(stream, "w", random.choice((0, 8, 12, 14))) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    else:
        mode = random.choice(("w", "w:gz", "w:bz2", "w:xz"))
        with tarfile.open(fileobj=stream, mode=mode, format=random.choice((0, 1, 2))) as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    texts = [data.decode() for data in files.values()]
    return stream.getvalue(), list(files), texts, [name.partition("/")[0] for name in files]


def _message(random: random.Random) -> tuple[EmailMessage, str]:
    """A message of the standard library's, and the text of it."""
    words = ("one", "two", "é", "日本語", "😀", "=?", "<b>", "&amp;", "From", ".", "=20", "x" * 90)
    lines = [" ".join(random.choices(words, k=random.randint(1, 12))) for _ in range(random.randint(1, 6))]
    subject = " ".join(random.choices(words[:5], k=random.randint(1, 30)))
    mail = EmailMessage(policy=default)
    mail["From"], mail["Subject"] = "a@example.org", subject
    mail.set_content("\n".join(lines), cte=random.choice(("base64", "quoted-printable", "8bit")))
    if random.random() < 0.4:
        mail.add_attachment(b"\x00\xff" * 9, maintype="application", subtype="octet-stream", filename="x.bin")
    # The standard library loses spaces of subjects as it writes them, so it says what it reads.
    subject = " ".join(message_from_bytes(bytes(mail), policy=default)["Subject"].split())
    return mail, "\n".join([subject, *lines])


def mail(random: random.Random) -> Whole:
    made, read = _message(random)
    return bytes(made), None, [read], []


def mbox(random: random.Random) -> Whole:
    made = [_message(random) for _ in range(random.randint(2, 5))]
    with tempfile.TemporaryDirectory() as folder:
        box = mailbox.mbox(Path(folder, "box"))
        for each, _ in made:
            box.add(bytes(each))
        box.close()
        data = Path(folder, "box").read_bytes()
    return data, None, [read for _, read in made], ["spam"] * len(made)


def maildir(random: random.Random) -> Whole:
    made = [(_message(random), random.choice(("ham", "spam"))) for _ in range(random.randint(2, 5))]
    files = {f"{kind}/cur/{i}:2,S": bytes(each) for i, ((each, _), kind) in enumerate(made)}
    read = dict(zip(files, made, strict=True))
    texts, labels = ([read[name][0][1] for name in sorted(files)], [read[name][1] for name in sorted(files)])
    return files, sorted(files), texts, labels


def sequences(random: random.Random) -> Whole:
    ids, _, _ = _rows(random)
    labels = [random.choice(("1", "kinase", "x=y", "a|b")) for _ in ids]
    texts = ["".join(random.choices("ACGTN", k=random.randint(2, 200))) for _ in ids]
    wide = random.choice((1, 60, 70, 10_000))
    end = random.choice(("\n", "\r\n"))
    lines = []
    for identifier, letters, label in zip(ids, texts, labels, strict=True):
        lines.append(f">{identifier} label={label} length={len(letters)}")
        lines += [letters[k : k + wide] for k in range(0, len(letters), wide)]
    return end.join([*lines, ""]).encode(), ids, texts, labels


def stories(random: random.Random) -> Whole:
    """Reuters-21578."""
    ids, texts, _ = _rows(random)
    texts = [each.replace("\x85", "").replace("\x0b", "").replace("\x0c", "") for each in texts]
    texts = [each.encode("latin-1", "ignore").decode("latin-1") for each in texts]
    labels = [tuple(random.sample(("acq", "earn", "grain"), random.randint(0, 3))) for _ in ids]
    whole = "".join(
        f'<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="{identifier}">\n<TOPICS>'
        f"{''.join(f'<D>{topic}</D>' for topic in topics)}</TOPICS>\n<TEXT>&#2;\n"
        f"<TITLE>{escape(each, False)}</TITLE><BODY>{escape(each, False)}\n&#3;</BODY></TEXT>\n</REUTERS>\n"
        for identifier, each, topics in zip(ids, texts, labels, strict=True)
    )
    return whole.encode("latin-1"), ids, [f"{each}\n{each}" for each in texts], labels


def _matrix(random: random.Random) -> tuple[list[list[float]], list[str]]:
    """Rows of numbers, of which many are zero, and labels; the last column has one."""
    n, d = random.randint(1, 6), random.randint(1, 9)
    numbers = (0, 0, 0, 1, -2.5, 1e300, 5e-324, 0.1)
    rows = [[float(random.choice(numbers)) for _ in range(d)] for _ in range(n)]
    rows[-1][-1] = 3.0
    return rows, [random.choice(("1", "-1", "2.5")) for _ in rows]


def libsvm(random: random.Random) -> Whole:
    """As scikit-learn writes it."""
    from sklearn.datasets import dump_svmlight_file

    rows, labels = _matrix(random)
    stream = io.BytesIO()
    dump_svmlight_file(rows, list(map(float, labels)), stream, zero_based=False)
    return stream.getvalue(), None, rows, labels


def arrays(random: random.Random) -> Whole:
    """As NumPy and SciPy write them."""
    import numpy as np
    from scipy import sparse

    rows, labels = _matrix(random)
    stream, matrix = io.BytesIO(), np.array(rows, order=random.choice(("C", "F")))
    way = random.randrange(4)
    if way == 0:
        np.save(stream, matrix)
    elif way == 1:
        sparse.save_npz(stream, random.choice((sparse.csr_matrix, sparse.csc_matrix))(matrix))
    else:
        save = np.savez if way == 2 else np.savez_compressed
        save(stream, X=matrix, y=labels, ids=[f"r{i}" for i in range(len(rows))])
    return stream.getvalue(), None, rows, labels if way > 1 else []
