"""Malformed mail has the text and the score of the clean mail, and passes unchanged but for our field."""

import email
import re

import pytest
from growth import assert_at_most_linear
from hypothesis import example, given, settings
from hypothesis import strategies as st
from malformed_mails import CLEAN, FORMS, FROM, HEAD, emlx, variants
from refusals import refuses

from textsvm.apps.mail import spamd
from textsvm.apps.mail.decision import Decision
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.message import read_message
from textsvm.apps.mail.raw_message import RawMessage, marked, raw_messages
from textsvm.errors import InputError
from textsvm.readers import sample
from textsvm.readers.files import read_files
from textsvm.readers.mail import is_mail, is_mbox, message_text, split_messages
from textsvm.readers.mail_header import header_start, repaired
from textsvm.readers.mime import lenient_base64, parse_message
from textsvm.readers.read import read_corpus, read_documents

SPAM = Decision("spam", 0.9989183, 2.0)
VARIANTS = {name: (clean, mail) for name, clean, mail in variants()}
#: Not even our field is ASCII there; they come from files, not by SMTP.
WIDE = re.compile("UTF-(?:16|32)")
FORM_NAMES = list(dict.fromkeys(name.partition(": ")[0] for name in VARIANTS))
OUTLOOK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "__substg1.0_0037001F".encode("utf-16-le")


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A filter of sample mails."""
    with Filter(tmp_path_factory.mktemp("mail") / "store", create=True) as opened:
        files = read_files(sample("mail")).files
        for kind in ("ham", "spam"):
            opened.learn_all([file.data for file in files if f"{kind}/" in file.name][:60], kind)
        yield opened


def of_form(form):
    """The variants of a form with their names."""
    return [(name, pair) for name, pair in VARIANTS.items() if name.partition(": ")[0] == form]


def test_there_are_enough_forms():
    assert len(FORMS) >= 60
    assert len({mail for _, mail in VARIANTS.values()}) == len(VARIANTS)
    assert all(clean != mail for clean, mail in VARIANTS.values())


@pytest.mark.parametrize("form", FORM_NAMES)
def test_malformed_mails_have_the_words_and_the_score_of_clean_mails(form, taught):
    """A missing or wrong charset is evidence, which has a line of its own in the text."""
    for name, (clean, mail) in of_form(form):
        assert message_text(mail)[0].split() == message_text(clean)[0].split(), name
        assert is_mail(mail), name
        if "charset" in form:
            continue
        score = taught.classify(clean).score
        assert 0.02 < score < 0.98  # a change would show
        decided = taught.classify(mail).score
        assert decided == pytest.approx(score, abs=0.02), name
        answer = b"".join(spamd.check(spamd.Request("CHECK", 1.5), mail, taught.classify(mail), taught))
        assert f" {decided:.6f}\r\n".encode() in answer, name


@pytest.mark.parametrize("kind", CLEAN)
def test_a_clean_mail_is_not_repaired(kind):
    for mail in (CLEAN[kind], CLEAN[kind].replace(b"\r\n", b"\n")):
        assert repaired(mail) is mail
        parts = [*parse_message(mail).walk()]
        standard = [*email.message_from_bytes(mail).walk()]
        assert [part.get_content_type() for part in parts] == [part.get_content_type() for part in standard]
        for part, other in zip(parts, standard, strict=True):
            assert part.keys() == other.keys()
            assert part.is_multipart() or part.content().split() == other.get_payload(decode=True).split()
            assert part.damage == []


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_a_name_within_an_indented_line_begins_no_header(line_end):
    data = line_end.join([b" junk To: a", b"To: b@c", b"Subject: x", b"", b"body"])
    assert data[header_start(data)[0] :].startswith(b"To: b@c")


def test_damage_is_named():
    for name in ("line without a colon: page", "blank before a colon: tree", "comment in a type: page"):
        assert message_text(VARIANTS[name][1])[1] == ["a header that is not well-formed"]
    assert message_text(FROM + CLEAN["page"])[1] == []


def test_cases_have_the_score_of_the_clean_case(taught, data):
    folder = data.parent / "cases"
    if not folder.is_dir():
        pytest.skip("needs the shared cases")
    scores = {path.name: taught.classify(path.read_bytes()).score for path in folder.glob("ev_*.eml")}
    assert len(scores) >= 6
    assert set(scores.values()) == {scores["ev_ok.eml"]}


# Corpora


def test_folders_and_mboxes_of_malformed_mails(tmp_path):
    """`train` and `predict` read them by this function; an mbox cannot hold other charsets or line ends."""
    words = {kind: message_text(mail)[0].split() for kind, mail in CLEAN.items()}
    box, kinds = b"", []
    (tmp_path / "spam").mkdir()
    for number, (name, (_, mail)) in enumerate(VARIANTS.items()):
        (tmp_path / "spam" / f"{number:03}.eml").write_bytes(mail)
        if not re.match("UTF-|many NUL|.*(?:CR|Apple)", name):
            quoted = mail.replace(b"\r\n", b"\n").replace(b"\nFrom ", b"\n>From ")
            box += FROM.replace(b"\r", b"") + quoted + b"\n\n"
            kinds.append(name.rpartition(": ")[2])
    corpus = read_corpus(tmp_path)
    assert (corpus.format, len(corpus)) == ("mail", len(VARIANTS))
    expected = [words[name.rpartition(": ")[2]] for name in VARIANTS]
    assert [text.split() for text in corpus.texts] == expected
    (tmp_path / "box").write_bytes(box)
    assert is_mbox(box)
    read = read_documents(tmp_path / "box")
    assert len(read) == len(kinds) > 300
    assert [text.split() for text in read.texts] == [words[kind] for kind in kinds]
    assert [data for _, data in raw_messages(tmp_path / "box", [])]


def test_files_of_apple_mail(tmp_path, taught):
    clean = CLEAN["page"]
    changed = emlx(clean).replace(b"MIME-Version", b"X-Added: 1\r\nMIME-Version")  # its count is wrong now
    for data in (emlx(clean), b" 12\n" + emlx(clean).partition(b"\n")[2]):
        (tmp_path / "1.emlx").write_bytes(data)
        assert read_documents(tmp_path / "1.emlx").texts == [message_text(clean)[0]]
        assert [mail for _, mail in raw_messages(tmp_path / "1.emlx", [])] == [clean]
        assert taught.classify(data) == taught.classify(clean)
    assert message_text(changed)[0] == message_text(clean)[0]
    for text in (b"12\nmonkeys\n", b"7\n", b"2001\nSubject matters\n"):
        assert [mail for _, mail in split_messages("1.emlx", text)] == [text]


def test_files_of_outlook_are_named(tmp_path, taught):
    for name, data in (("a.msg", OUTLOOK[:600]), ("b", OUTLOOK)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=rf"{name} is a message of Outlook .*\.eml.*msgconvert"):
            list(raw_messages(tmp_path / name, []))
        refuses(rf"{name} is a message of Outlook", read_documents, tmp_path / name)
    for action in (taught.classify, taught.unlearn, read_message):
        refuses("the message is a message of Outlook", action, OUTLOOK)
    for number in range(3):
        (tmp_path / f"{number}.eml").write_bytes(CLEAN["page"])
    corpus = read_documents(tmp_path, "mail")
    assert len(corpus) == 3
    assert {name for name, _ in corpus.problems} == {"a.msg", "b"}


def test_texts_are_no_mails():
    memo = b"MEMORANDUM\nTo: all\nFrom: me\nDate: today\nSubject: lunch\n\nAt noon.\n"
    title = b"   Title\nDate: today\n\nText.\n"
    others = [
        b"Dear Sir,\nSubject: x\n\ny",
        b"\n\nNote: this\n",
        b"12\nSubject matters\n",
        b"\xef\xbb\xbftext",
    ]
    assert not any(map(is_mail, (memo, title, b"\0\0", b"", *others)))
    for text in others:
        assert message_text(text)[0].split() == text.decode("utf-8-sig").split()


@pytest.mark.parametrize(
    ("data", "decoded"),
    [
        (b"YWJj", b"abc"),
        (b"YWI=", b"ab"),
        (b"YWI", b"ab"),
        (b"YWJjZ", b"abc"),
        (b"", b""),
        (b"Y", b""),
        (b"Y*W I", b"ab"),
    ],
)
def test_base64_with_faults(data, decoded):
    assert lenient_base64(data) == decoded


# Passing on


def fields(data, tolerant):
    """Header fields without ours, as a parser reads them that stops at a malformed line or ignores it."""
    if not tolerant:
        pairs = [(name.lower(), value) for name, value in email.message_from_bytes(data).raw_items()]
        return [pair for pair in pairs if pair[0] not in ("x-textsvm", "x-spam-flag")]
    found, ignored = [], False
    begin = re.match(rb"(?:\xef\xbb\xbf|[\s\0]|>?From (?![ \t]*:)[^\n]*\n)*", data).end()
    for line in re.split(rb"\r?\n|\r", data[begin:]):
        if not line:
            break
        name, colon, value = line.partition(b":")
        if line[:1] not in b" \t":
            ignored = not colon
            found += [(name.strip().lower(), value.strip())] * (not ignored)
        elif found and not ignored:
            found[-1] = (found[-1][0], found[-1][1] + b" " + line.strip())
    return [pair for pair in found if pair[0] not in (b"x-textsvm", b"x-spam-flag")]


def without_our_fields(data):
    return re.sub(rb"(?:X-Textsvm: Spam[^\r\n]*|X-Spam-Flag: YES)\r?\n", b"", data)


@pytest.mark.parametrize("form", [form for form in FORM_NAMES if not WIDE.match(form)])
def test_malformed_mails_pass_with_their_header(form):
    for name, (_, mail) in of_form(form):
        once = marked(mail, SPAM)
        assert without_our_fields(once) == mail, name
        assert marked(once, SPAM) == once, name
        for tolerant in (False, True):
            assert fields(once, tolerant) == fields(mail, tolerant), name
        assert RawMessage(once).digest == RawMessage(mail).digest, name
        assert read_message(once) == read_message(mail), name
        assert message_text(once)[0] == message_text(mail)[0], name


STRANGE = (
    "From: a@b\n", "Subject: x\r\n", "To: c\n", "X-Mailer : v\n", "Content-Type: text/html;\n", "\n", "\r\n",
    "charset=utf-8\n", " folded\n", "no colon\n", "\r", "\0", "\ufeff", ">From a@b Mon 10:00 2001\n",
    "From a@b Mon 10:00 2001\n", "Message-ID: <1@x>\n", "=?utf-8?q?y?=\n", "body text\n", "Ünï: x\n",
)  # fmt: skip


@given(st.lists(st.sampled_from(STRANGE), min_size=1, max_size=12).map("".join))
@example("\ufeffFrom: a@b\nSubject: x\n\nbody")
@example("\nFrom: a@b\n\nbody")
@example("no colon\nFrom: a@b\nSubject: x\n\nbody")
@settings(max_examples=500)
def test_strange_mails_pass_with_their_header(text):
    mail = text.encode()
    once = marked(mail, SPAM)
    rest = without_our_fields(once)
    # A header that ends the mail, and a text without a header, get line ends around our fields.
    assert rest == mail or re.sub(rb"[\r\n]", b"", rest) == re.sub(rb"[\r\n]", b"", mail)
    assert len(rest) - len(mail) <= 4
    assert marked(once, SPAM) == once
    assert fields(once, tolerant=False) == fields(mail, tolerant=False)
    if RawMessage(mail).has_header:
        assert fields(once, tolerant=True) == fields(mail, tolerant=True)
    assert RawMessage(once).digest == RawMessage(mail).digest


# Hostile headers: ten megabytes, read in time linear in their length.

M = 10_000_000
HOSTILE = {
    "NUL": b"\0", "marks": b"\xef\xbb\xbf", "blanks": b" ", "CR": b"\r", "CR CR LF": b"\r\r\n",
    "lines": b"no colon\n", "From lines": FROM, "empty lines": b"\n\nA: b\n",
    "colons": b":", "continuations": b"charset=x\n", "commas": b",\n", "types": b"Content-Type: a/b (\n",
    "comments": b"(", "encodings": b"Content-Transfer-Encoding: x\n", "quotes": b'"', "escapes": b'"\\',
    "parameters": b'; a="b', "boundaries": b"--\n", "digits": b"1", "names": b"a", "words": b"=?u?q?",
    "longer words": b"=?u?q?a=", "slashes": b"a/",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", [b"", HEAD, HEAD + b"Content-Type: ", HEAD + b"Content-Transfer-Encoding: ", HEAD + b"\r\n"]
)
@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_hostile_headers_take_linear_time(piece, place):
    def work(n):
        mail = place + piece * (n // len(piece)) + b"\r\nTo: b\r\n\r\nx"
        repaired(mail)
        is_mail(mail)
        RawMessage(mail)
        message_text(mail)

    assert_at_most_linear(work, M // 8)  # both exceed the limit of a header
