"""Write the sample corpora: generated texts in the formats of the public ones. Same bytes every time.

    python corpora/make_samples.py [folder]      # default: corpora/samples

Only the standard library is needed. Texts come from the grammars beside this file; classes share
phrases, and some documents carry the wrong label, so that no classifier is right every time.
"""

from __future__ import annotations

import base64
import configparser
import csv
import gzip
import io
import json
import quopri
import random
import re
import sys
import tarfile
from pathlib import Path

STORIES, MAILS, MESSAGES, ROWS, WRITERS, SPEAKERS = 600, 400, 800, 60, 60, 200
LABEL_NOISE = 0.02
SITES, SITE_LENGTH, SITE_KEEPS = 400, 100, 0.97
FACTORS = {"alpha": "CCACTAGGTGG", "beta": "AGATAAGGCA"}
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
Rules = dict[str, list[str]]


def sections(name: str) -> dict[str, Rules]:
    """The sections of a grammar beside this file; newswire.ini says how they read."""
    parser = configparser.RawConfigParser(comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(Path(__file__).parent / f"{name}.ini", encoding="utf-8")
    return {
        section: {
            rule: [
                each.strip().replace("\\n", "\n").replace("\\t", "    ").replace('""', "")
                for each in value.replace("\n", " ").split("|")
            ]
            for rule, value in parser[section].items()
        }
        for section in parser.sections()
    }


NEWSWIRE, MAIL, TABLES, SHORT = (sections(name) for name in ("newswire", "mail", "tables", "messages"))
TOPICS = [name for name in NEWSWIRE if name not in ("shared", "other")]


class Grammar:
    """Expands `{rule}`: a rule of the grammar or a generated number; `{RULE}` in capitals."""

    def __init__(self, rng: random.Random, *rules: Rules) -> None:
        self.rng = rng
        self.rules: Rules = {}
        for each in rules:
            self.rules |= each

    def __call__(self, rule: str) -> str:
        rng = self.rng
        if rule in self.rules:
            return re.sub(r"\{([\w-]+)\}", lambda match: self(match[1]), rng.choice(self.rules[rule]))
        if rule.lower() in self.rules:
            text = self(rule.lower())
            return text.upper() if rule.isupper() else text[:1].upper() + text[1:]
        value = {
            "number": lambda: f"{rng.randint(1, 900)}.{rng.randint(0, 9)}",
            "big": lambda: f"{rng.randint(2, 980)},{rng.randint(0, 999):03d}",
            "small": lambda: str(rng.randint(2, 30)),
            "cents": lambda: str(rng.randint(3, 98)),
            "price": lambda: f"{rng.randint(2, 190)}.{rng.randint(0, 99):02d}",
            "fraction": lambda: f"{rng.randint(1, 9)}-{rng.choice((1, 3, 5, 7))}/8",
            "percent": lambda: f"{rng.randint(1, 95)}.{rng.randint(0, 9)} pct",
            "day": lambda: str(rng.randint(1, 28)),
            "ticker": lambda: "".join(rng.choice("ABCDEFGHKLMNOPRSTUVW") for _ in range(rng.randint(2, 4))),
            "gibberish": lambda: "".join(
                rng.choice("bcdfghjklmnpqrstvwxyzaeiou") for _ in range(rng.randint(8, 24))
            ),
        }[rule.lower()]()
        return value.upper() if rule.isupper() else value

    def several(self, rule: str, low: int, high: int) -> list[str]:
        return list(dict.fromkeys(self(rule) for _ in range(self.rng.randint(low, high))))


# ---- newswire -----------------------------------------------------------------------------------


def write_newswire(folder: Path, rng: random.Random) -> None:
    """SGML files in the form of Reuters-21578."""
    folder.mkdir(parents=True, exist_ok=True)
    stories = [story(number, rng) for number in range(1, STORIES + 1)]
    for index in range(3):
        chunk = stories[index * STORIES // 3 : (index + 1) * STORIES // 3]
        text = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + "".join(chunk)
        (folder / f"reut2-{index:03d}.sgm").write_bytes(text.encode("latin-1"))


def story(number: int, rng: random.Random) -> str:
    """One document."""
    topics, title, lead, more = plot(rng)
    if rng.random() < LABEL_NOISE and topics:
        topics = [rng.choice([name for name in ("earn", "acq", "trade") if name not in topics])]
    split = "NOT-USED" if rng.random() < 0.04 else "TRAIN" if number <= 0.7 * STORIES else "TEST"
    yes = "YES" if topics or rng.random() < 0.3 else "NO"
    cgi = "PUBLISHED-TESTSET" if number > 0.95 * STORIES else "TRAINING-SET"
    city = Grammar(rng, NEWSWIRE["shared"])("city")
    day, month = rng.randint(1, 28), MONTHS[number * 12 // (STORIES + 1)]
    dateline = f"    {city}, {month.title()} {day} - "
    kind = rng.random()
    body = "\n    ".join([lead, *more])
    title, body = entities(title), entities(wrap(body))
    if kind < 0.05:
        text = f'<TEXT TYPE="BRIEF">&#2;\n******<TITLE>{title}\n</TITLE>Blah blah blah.\n&#3;\n\n</TEXT>'
    elif kind < 0.09:
        text = f'<TEXT TYPE="UNPROC">&#2;\n{title}\n{entities(dateline)}{body}\n Reuter\n&#3;\n\n</TEXT>'
    else:
        author = (
            f"<AUTHOR>    By {entities(rng.choice(('A. Writer', 'J. Doe')))}, Sample News</AUTHOR>"
            if kind < 0.14
            else ""
        )
        text = (
            f"<TEXT>&#2;\n<TITLE>{title}</TITLE>\n{author}<DATELINE>{entities(dateline)}</DATELINE>"
            f"<BODY>{body}\n Reuter\n&#3;</BODY></TEXT>"
        )
    clock = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}.00"
    return (
        f'<REUTERS TOPICS="{yes}" LEWISSPLIT="{split}" CGISPLIT="{cgi}" '
        f'OLDID="{number + 4000}" NEWID="{number}">\n<DATE>{day:2d}-{month}-1991 {clock}</DATE>\n'
        f"<TOPICS>{tags(topics)}</TOPICS>\n<PLACES>{tags([city.lower().replace(' ', '-')])}</PLACES>\n"
        f"<UNKNOWN>&#5;&#5;&#5;F\n&#22;&#22;&#1;f{number:04d}&#31;sample</UNKNOWN>\n{text}\n</REUTERS>\n"
    )


def plot(rng: random.Random) -> tuple[list[str], str, str, list[str]]:
    """Topics, title, first sentence, further sentences."""
    names = (
        ["earn"] * 30
        + ["acq"] * 22
        + ["crude"] * 9
        + ["grain"] * 9
        + ["money-fx"] * 8
        + ["trade"] * 8
        + [""] * 14
    )
    first = rng.choice(names)
    rules = NEWSWIRE[first or "other"]
    topics = [first] if first else []
    grammar = Grammar(rng, NEWSWIRE["shared"], rules)
    title, lead = grammar("title"), grammar("lead")
    if first == "earn" and rng.random() < 0.5:
        lead = grammar("table") if rng.random() < 0.7 else lead + "\n" + grammar("table")
        more = grammar.several("more", 0, 1) + grammar.several("general", 0, 2)
    else:
        more = grammar.several("more", 0, 3) + grammar.several("general", 0, 3)
    if first and rng.random() < 0.3:  # a second subject
        second = rng.choice([name for name in TOPICS if name != first])
        other = Grammar(rng, NEWSWIRE["shared"], NEWSWIRE[second])
        more += other.several("more", 1, 3)
        if rng.random() < 0.4:
            more.insert(0, other("lead"))
            topics.append(second)
    rng.shuffle(more)
    return topics, title, lead, more


def tags(names: list[str]) -> str:
    return "".join(f"<D>{name}</D>" for name in names)


def entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def wrap(text: str, width: int = 64) -> str:
    """Break long lines at spaces, as the wire did."""
    lines = []
    for line in text.split("\n"):
        while len(line) > width and " " in line[8:width]:
            cut = line.rindex(" ", 8, width)
            lines.append(line[:cut])
            line = line[cut + 1 :]
        lines.append(line)
    return "\n".join(lines)


# ---- mail ---------------------------------------------------------------------------------------


def write_mail(path: Path, rng: random.Random, broken: bool = False) -> None:
    """A tar.gz with a folder of raw messages for each class; the tests of readers have one in ten broken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        counts = {"ham": 0, "spam": 0}
        for number in range(MAILS):
            label = "spam" if rng.random() < 0.42 else "ham"
            data = message(label, number, rng, broken)
            if rng.random() < LABEL_NOISE:
                label = "ham" if label == "spam" else "spam"
            counts[label] += 1
            info = tarfile.TarInfo(f"{label}/{counts[label]:04d}.eml")
            info.size, info.mtime, info.mode = len(data), 662_688_000 + number, 0o644
            archive.addfile(info, io.BytesIO(data))
    with path.open("wb") as stream, gzip.GzipFile("", "wb", 9, stream, mtime=0) as packed:
        packed.write(buffer.getvalue())


def message(label: str, number: int, rng: random.Random, broken: bool) -> bytes:
    """One raw message."""
    language = rng.choices(list(MAIL["charsets"]), [60, 8, 7, 7, 6, 6, 3, 3])[0]
    subject, body = words(label, language, rng)
    charset = rng.choice(MAIL["charsets"][language])
    data, charset = encoded(body, charset)
    kind = rng.choices(
        ("plain", "html", "alternative", "mixed"), (55, 20, 13, 12) if label == "spam" else (74, 5, 11, 10)
    )[0]
    boundary = f"=_{number:04d}_{rng.getrandbits(48):012x}"
    plain = part(data, "text/plain", charset, rng)
    if kind in ("html", "alternative"):
        page, _ = encoded(html_page(body, label, rng), charset)
        html = part(page, "text/html", charset, rng)
    if kind == "plain":
        content = plain
    elif kind == "html":
        content = html
    elif kind == "alternative":
        content = multipart("alternative", boundary, [plain, html])
    else:
        content = multipart("mixed", boundary, [plain, attachment(rng)])
    head = headers(label, subject, charset, number, rng)
    whole, damage = head + content, damaged(head, content, boundary, charset, rng)
    if damage and broken:
        return damage
    return whole.replace(b"\n", b"\r\n") if not damage and rng.random() < 0.1 else whole


def words(label: str, language: str, rng: random.Random) -> tuple[str, str]:
    """Subject and body; now and then in the tone of the other class."""
    own = Grammar(rng, MAIL["shared"], MAIL[f"{label} {language}"])
    different = "ham" if label == "spam" else "spam"
    other = Grammar(rng, MAIL["shared"], MAIL[f"{different} {language}"])
    disguised = rng.random() < 0.06
    sentences = own.several("sentence", 1, 6)
    if disguised or rng.random() < 0.07:
        sentences = own.several("sentence", 1, 2) + other.several("sentence", 1, 2)
        rng.shuffle(sentences)
    subject = (other if disguised else own)("subject")
    greeting = (other if disguised else own)("greeting")
    if language == "en":
        sentences = [typos(sentence, rng) if rng.random() < 0.25 else sentence for sentence in sentences]
        if label == "spam" and rng.random() < 0.2:
            sentences = [sentence.upper() for sentence in sentences]
    paragraphs = [greeting, *wrapped(sentences, rng), own("closing")]
    return subject, "\n\n".join(paragraph for paragraph in paragraphs if paragraph) + "\n"


def wrapped(sentences: list[str], rng: random.Random) -> list[str]:
    """Sentences in paragraphs of one to three; quoted ones alone."""
    paragraphs: list[str] = []
    for sentence in sentences:
        if (
            paragraphs
            and not sentence.startswith(">")
            and not paragraphs[-1].startswith(">")
            and rng.random() < 0.6
        ):
            paragraphs[-1] += " " + sentence
        else:
            paragraphs.append(sentence)
    return [wrap(paragraph, 72) for paragraph in paragraphs]


def typos(sentence: str, rng: random.Random) -> str:
    letters = list(sentence)
    for _ in range(rng.randint(1, 3)):
        i = rng.randrange(len(letters) - 1)
        letters[i], letters[i + 1] = letters[i + 1], letters[i]
    return "".join(letters)


def encoded(text: str, charset: str) -> tuple[bytes, str]:
    try:
        return text.encode(charset), charset
    except UnicodeEncodeError:
        return text.encode("utf-8"), "utf-8"


def part(data: bytes, kind: str, charset: str, rng: random.Random) -> bytes:
    """Headers of a MIME part, an empty line, and the part in some transfer encoding."""
    if data.isascii():
        encoding = rng.choice(("7bit", "7bit", "quoted-printable"))
    else:
        encoding = rng.choice(("8bit", "quoted-printable", "base64"))
    if encoding == "quoted-printable":
        data = quopri.encodestring(data)
    elif encoding == "base64":
        data = base64.encodebytes(data)
    head = f'Content-Type: {kind}; charset="{charset}"\nContent-Transfer-Encoding: {encoding}\n\n'
    return head.encode() + data


def html_page(body: str, label: str, rng: random.Random) -> str:
    text = body.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if label == "spam":  # a comment in the middle of a word, and a script that nobody sees
        text = re.sub(r"(?<=\w{3})(?=\w{3})", lambda _: "<!-- x -->" if rng.random() < 0.02 else "", text)
        script = f'<script>window.status="{rng.random():.6f}"</script>'
        text = f'<font color="#ff0000" size={rng.randint(2, 6)}>{text}</font>{script}'
    paragraphs = "</p>\n<p>".join(text.split("\n\n")).replace("\n", "<br>\n")
    return (
        '<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01//EN">\n<html><head><title></title>'
        "<style>p { margin: 1em }"
        f'</style></head>\n<body bgcolor="#ffffff"><p>{paragraphs}</p>&nbsp;</body></html>\n'
    )


def attachment(rng: random.Random) -> bytes:
    name, kind = rng.choice(
        (("photo.gif", "image/gif"), ("invoice.pdf", "application/pdf"), ("notes.zip", "application/zip"))
    )
    data = base64.encodebytes(bytes(rng.getrandbits(8) for _ in range(rng.randint(60, 240))))
    head = (
        f'Content-Type: {kind}; name="{name}"\nContent-Transfer-Encoding: base64\n'
        f'Content-Disposition: attachment; filename="{name}"\n\n'
    )
    return head.encode() + data


def multipart(kind: str, boundary: str, parts: list[bytes]) -> bytes:
    head = f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\nThis message is in MIME format.\n'
    mark = f"--{boundary}\n".encode()
    return head.encode() + b"".join(mark + each + b"\n" for each in parts) + f"--{boundary}--\n".encode()


def headers(label: str, subject: str, charset: str, number: int, rng: random.Random) -> bytes:
    grammar = Grammar(rng, MAIL["shared"])
    sender, host = grammar("name"), f"{grammar('word')}.example"
    lines = [
        f"Return-Path: <{sender.lower()}@{host}>",
        f"Received: from {host} (mail.{host} [192.0.2.{rng.randint(1, 250)}])\n"
        f"\tby mx.example.org with SMTP id {rng.getrandbits(32):08x}",
        f"From: {sender} <{sender.lower()}@{host}>",
        f"To: {grammar('name').lower()}@example.org",
        f"Subject: {encoded_words(subject, charset, rng)}",
        f"Date: {rng.randint(1, 28)} {rng.choice(MONTHS).title()} 1991 10:{number % 60:02d}:00 +0000",
        f"Message-ID: <{number}.{rng.getrandbits(40):010x}@{host}>",
        "MIME-Version: 1.0",
    ]
    if label == "ham" and rng.random() < 0.3:
        lines.append(f"List-Id: <{grammar('word')}-users.{host}>")
    if rng.random() < 0.05:
        lines.insert(0, f"From {sender.lower()}@{host} Mon Mar 11 10:{number % 60:02d}:00 1991")
    return ("\n".join(lines) + "\n").encode()


def encoded_words(subject: str, charset: str, rng: random.Random) -> str:
    if subject.isascii():
        return subject
    data, charset = encoded(subject, charset)
    if rng.random() < 0.6:
        return f"=?{charset}?B?{base64.b64encode(data).decode()}?="
    escaped = "".join(chr(b) if chr(b).isalnum() and b < 128 else f"={b:02X}" for b in data)
    return f"=?{charset}?Q?{escaped}?="


def damaged(head: bytes, content: bytes, boundary: str, charset: str, rng: random.Random) -> bytes:
    """Nothing in nine cases of ten; else the message as broken as mail is now and then."""
    if rng.random() >= 0.1:
        return b""
    whole, named, last = head + content, b'charset="' + charset.encode(), f"--{boundary}--".encode()
    broken = [
        whole.replace(named, b'charset="x-nowhere-7'),
        whole.replace(named, b'charset="us-ascii'),
        whole.replace(named, b'charset="big5'),
        whole.replace(last, b""),
        whole[: len(head) + len(content) * 2 // 3] if last in whole else whole,
        whole.replace(b"base64\n\n", b"base64\n\n*?!"),
        content.partition(b"\n\n")[2],
        whole.replace(b"MIME-Version: 1.0\n", b"this line is no header\nMIME-Version: 1.0\n"),
        whole.replace(b". ", b".\0 ", 2),
    ]
    return rng.choice([each for each in broken if each != whole and len(each) > 40])


# ---- short messages -----------------------------------------------------------------------------


def write_messages(path: Path, rng: random.Random) -> None:
    """messages.csv: short messages, ham or spam, no two alike."""
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(["text", "label"])
    seen: set[str] = set()
    while len(seen) < MESSAGES:
        label = "spam" if rng.random() < 0.35 else "ham"
        text = short_message(label, rng)
        if text not in seen:
            seen.add(text)
            wrong = rng.random() < LABEL_NOISE / 2
            rows.writerow([text, ("ham" if label == "spam" else "spam") if wrong else label])
    path.write_bytes(stream.getvalue().encode())


def short_message(label: str, rng: random.Random) -> str:
    """One to three lines: spam may begin like a friend, and friends pass spam on; with slips of the hand."""
    parts = [opened(label, rng)]
    if label == "spam" and rng.random() < 0.3:
        parts.insert(0, opened("ham", rng))
    elif label == "ham" and rng.random() < 0.08:
        parts = [Grammar(rng, SHORT["shared"])("forward"), opened("spam", rng)]
    elif rng.random() < 0.2:
        parts.append(opened(label, rng))
    shared = Grammar(rng, SHORT["shared"])
    text = " ".join(part for part in (shared("opening"), *parts, shared("ending")) if part)
    for _ in range(len(text) // 60):
        text = typos(text, rng) if rng.random() < 0.3 else text
    if rng.random() < (0.5 if label == "spam" else 0.04):
        text = " ".join(hidden(word, rng) for word in text.split(" "))
    style = rng.random()
    return text.upper() if style < 0.06 else text.lower() if style > 0.6 else text


def opened(label: str, rng: random.Random) -> str:
    """A line of a class, the first ones oftener than the last."""
    lines = SHORT[label]["line"]
    [line] = rng.choices(lines, [1 / (place + 3) for place in range(len(lines))])
    grammar = Grammar(rng, SHORT["shared"], SHORT[label])
    return re.sub(r"\{([\w-]+)\}", lambda match: grammar(match[1]), line)


def hidden(word: str, rng: random.Random) -> str:
    """A long word, now and then with a look-alike letter, or with dots or spaces between its letters."""
    looks = {"a": "@", "e": "3", "i": "1", "l": "1", "o": "0", "s": "$"}
    if len(word) < 4 or not word.isalpha() or rng.random() < 0.5:
        return word
    if rng.random() < 0.3:
        return rng.choice((".", " ", "-")).join(word)
    place = rng.randrange(len(word))
    return word[:place] + looks.get(word[place].lower(), word[place]) + word[place + 1 :]


# ---- tables -------------------------------------------------------------------------------------


def write_tables(folder: Path, rng: random.Random) -> None:
    """reviews.csv and questions.jsonl."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(["id", "text", "label"])
    for number in range(1, ROWS + 1):
        label = rng.choice(("positive", "negative"))
        grammar = Grammar(rng, TABLES["reviews"], TABLES[f"reviews {label}"])
        lines = grammar.several("line", 1, 2) + grammar.several("neutral", 0, 2)
        writer.writerow([f"r{number}", rng.choice((" ", "\n")).join(lines), label])
    (folder / "reviews.csv").write_bytes(stream.getvalue().encode())
    rows = []
    for number in range(1, ROWS + 1):
        label = rng.choice(("where", "when", "what"))
        grammar = Grammar(rng, TABLES["questions"], TABLES[f"questions {label}"])
        row = {"id": f"q{number}", "text": grammar("line"), "label": label}
        rows.append(json.dumps(row) + "\n")
    (folder / "questions.jsonl").write_bytes("".join(rows).encode())


def write_essays(path: Path, rng: random.Random) -> None:
    """essays.tsv: two essays a writer with a score from 0 to 6; quotes are characters like any other."""
    rows = ["essay_id\twriter\tessay\tscore\traters"]
    skill = 0.0
    for number in range(1, 2 * WRITERS + 1):
        skill = rng.uniform(0, 1) if number % 2 else min(1.0, max(0.0, skill + rng.gauss(0, 0.1)))
        lines, points = [], 0
        for _ in range(rng.randint(4, 8)):
            level = min(2, max(0, round(2 * skill + rng.gauss(0, 0.5))))
            lines.append(
                Grammar(rng, TABLES["essays"], TABLES[f"essays {('poor', 'fair', 'good')[level]}"])("line")
            )
            points += level
        score = min(6, max(0, round(3 * points / len(lines) + rng.gauss(0, 0.3))))
        cells = [
            str(number),
            f"w{(number + 1) // 2:02d}",
            " ".join(lines),
            str(score),
            str(rng.randint(1, 2)),
        ]
        rows.append("\t".join(cells))
    path.write_bytes("".join(row + "\n" for row in rows).encode())


def write_dialects(path: Path, rng: random.Random) -> None:
    """dialects.csv: small talk in three invented dialects; one sentence in six is in another one."""
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(["text", "dialect", "part"])
    names = ("north", "south", "islands")
    for number in range(SPEAKERS):
        dialect = rng.choice(names)
        lines = []
        for _ in range(rng.randint(2, 4)):
            spoken = dialect if rng.random() < 5 / 6 else rng.choice(names)
            lines.append(Grammar(rng, TABLES["dialects"], TABLES[f"dialects {spoken}"])("line"))
        rows.writerow([" ".join(lines), dialect, "test" if number % 4 == 0 else "train"])
    path.write_bytes(stream.getvalue().encode())


def write_sites(path: Path, rng: random.Random) -> None:
    """sites.fa.gz: DNA that two invented factors bind or not; a site varies and stands on either strand."""
    complement = str.maketrans("ACGT", "TGCA")

    def site(factor: str) -> str:
        letters = [each if rng.random() < SITE_KEEPS else rng.choice("ACGT") for each in FACTORS[factor]]
        found = "".join(letters)
        return found if rng.random() < 0.5 else found.translate(complement)[::-1]

    lines = []
    for number in range(SITES):
        bound = number % 2 == 0
        g_and_c = rng.uniform(0.4, 0.6)
        letters = [rng.choice("GC" if rng.random() < g_and_c else "AT") for _ in range(SITE_LENGTH)]
        factors = rng.choice((["alpha"], ["beta"], ["alpha", "beta"])) if bound else []
        for factor in factors:
            place = rng.randint(0, 1) * SITE_LENGTH // 2 + rng.randint(0, SITE_LENGTH // 2 - 12)
            letters[place : place + len(FACTORS[factor])] = site(factor)
        if rng.random() < 0.2:  # a repeat, masked in lower case
            begin = rng.randint(0, SITE_LENGTH - 30)
            letters[begin : begin + 30] = [letter.lower() for letter in letters[begin : begin + 30]]
        if rng.random() < 0.05:  # letters that nobody knows
            begin = rng.randint(0, SITE_LENGTH - 5)
            letters[begin : begin + 5] = "NNNNN"
        chromosome = f"chr{1 + number // 2 % 10}"
        begin = rng.randint(10_000, 90_000_000)
        label = ("bound", "free")[bound == (rng.random() < LABEL_NOISE)]
        fields = {
            "label": label,
            "factors": ";".join(factors) or "none",
            "chr": chromosome,
            "split": "test" if chromosome in ("chr8", "chr9") else "train",
        }
        said = " ".join(f"{name}={value}" for name, value in fields.items())
        lines.append(f">{chromosome}:{begin}-{begin + SITE_LENGTH} {said}")
        lines += ["".join(letters[:60]), "".join(letters[60:])]
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), 9, mtime=0))


def write_samples(folder: Path) -> None:
    """All sample corpora, each from a seed of its own."""
    write_newswire(folder / "newswire", random.Random(21578))
    write_mail(folder / "mail.tar.gz", random.Random(822))
    write_messages(folder / "messages.csv", random.Random(160))
    write_tables(folder, random.Random(4180))
    write_essays(folder / "essays.tsv", random.Random(2012))
    write_dialects(folder / "dialects.csv", random.Random(1874))
    write_sites(folder / "sites.fa.gz", random.Random(1953))


if __name__ == "__main__":
    write_samples(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "samples")
