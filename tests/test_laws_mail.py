"""What holds for all lessons of the mail filter: each counts once, and figures say what was seen before."""

import binascii
import os
import re

import numpy as np
import pytest
from command import run
from mails import mail, taught_store
from malformed_mails import CLEAN, front
from refusals import refuses
from test_mail_categories import of

from textsvm.apps.mail import categories, client
from textsvm.apps.mail.categories import NONE
from textsvm.apps.mail.decision import Decision, kind_of
from textsvm.apps.mail.features import WeightVector, character_contributions, features
from textsvm.apps.mail.filter import RECENT, Filter
from textsvm.apps.mail.lessons import MAX_KEPT
from textsvm.apps.mail.message import read_message
from textsvm.apps.mail.raw_message import RawMessage
from textsvm.apps.mail.report import out_of_fold
from textsvm.readers.mail_header import repaired


def digest(data):
    return RawMessage(data).digest


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_categories_are_trained_on_every_lesson_once_and_on_the_newest_of_the_rest(tmp_path, set_values):
    trained = {}

    def weights(name, lessons):
        trained[name] = lessons
        return computed(name, lessons)

    computed = categories._weights
    set_values(categories, _weights=weights, REST=6)
    with Filter(taught_store(tmp_path / "store", 8)) as opened:
        own = [of("newsletter", i) for i in range(4)]
        opened.learn_all(own, "newsletter")
        opened.learn_all([of("orders", i) for i in range(3)], NONE)
        opened.learn(own[0], "ham")  # a kind and a category
        opened.categories.refresh()
    lessons = trained["newsletter"]
    digests = [lesson.digest for lesson in lessons]
    assert len(digests) == len(set(digests)) == 4 + 3 + 6
    assert {lesson.digest for lesson in lessons if lesson.kind == "newsletter"} == set(map(digest, own))
    newest = [digest(mail(kind, i)) for i in range(5, 8) for kind in ("spam", "ham")]
    assert set(digests[7:]) == set(newest)


def test_recognised_are_the_messages_that_had_their_category_before_they_were_learnt(tmp_path):
    with Filter(taught_store(tmp_path / "store", 12)) as opened:
        opened.learn_all([of("newsletter", i) for i in range(12)], "newsletter")
        opened.categories.refresh()
        expected = {"newsletter": 0, NONE: 0}
        others = [mail("ham", i) for i in range(40, 46)] + [of("orders", i) for i in range(3)]
        late = [of("newsletter", i) for i in range(30, 33)]
        for name, messages in (("newsletter", late), (NONE, [*others, of("newsletter", 50)])):
            for data in messages:
                category = opened.classify(data).category
                expected[name] += category == ("" if name == NONE else name)
            opened.learn_all(messages, name)
        status = opened.categories.status()
    assert status[NONE] == {"lessons": 10, "judged": 10, "recognised": expected[NONE]}
    assert status["newsletter"] == {"lessons": 15, "judged": 3, "recognised": expected["newsletter"]}
    assert 0 < expected[NONE] < 10
    assert expected["newsletter"]


@pytest.mark.parametrize("kind", ["ham", "newsletter"])
def test_a_lesson_keeps_the_beginning_of_a_long_message(kind, tmp_path):
    data = mail("ham", 1) + b"x" * (MAX_KEPT + 100)
    with Filter(tmp_path / "store", create=True, texts=True) as opened:
        opened.learn(data, kind)
        store = opened.categories.store() if kind == "newsletter" else opened.lessons
        [lesson] = [one for one in store.iterate(messages=True) if one.digest == digest(data)]
    assert lesson.message == data[:MAX_KEPT]


def test_the_report_lists_as_many_mistakes_as_are_asked_for(tmp_path):
    folder = taught_store(tmp_path / "store", 12)
    with Filter(folder) as opened:
        opened.learn_all([mail("ham", i) for i in range(50, 54)], "spam")
    found = []
    for number in (0, 2, 4):
        path = tmp_path / f"{number}.html"
        done = run("mail", "report", path, "--store", folder, "--mistakes", number)
        assert done.returncode == 0, done.stderr.decode()
        page = path.read_text(encoding="utf-8")
        subjects = [mail("ham", i).decode().split("\n")[1].removeprefix("Subject: ") for i in range(50, 54)]
        found.append(sum(subject in page for subject in subjects))
    assert found == [0, 2, 4]


def test_the_status_counts_the_decisions_from_before_each_lesson(tmp_path):
    """Wrong, unsure and false positives, of the last lessons alone, also after a new start."""
    folder, expected = tmp_path / "store", []
    with Filter(folder, create=True) as opened:
        for i in range(RECENT // 2 + 8):
            for kind in ("spam", "ham"):
                # Some messages are of the other kind, so that decisions are wrong.
                data = mail(kind, i, 6) if i % 5 else mail({"spam": "ham", "ham": "spam"}[kind], i, 6)
                known = len({row.kind for row in opened.lessons.history()}) == 2
                decision = opened.classify(data)
                assert opened.learn(data, kind)
                expected.append((kind, decision.kind) if known else None)
                row = opened.lessons.history()[0]
                assert (row.value, row.score) == ((decision.value, decision.score) if known else (None, None))
                assert opened.classify(data).kind == kind  # a learnt message keeps its kind
    with Filter(folder) as opened:
        status = opened.status()
        assert len(status.last) == RECENT
        assert [row.id for row in status.last] == [row.id for row in opened.lessons.history()][:RECENT]
    last = [pair for pair in expected[-RECENT:] if pair]
    unsure = sum(said == "unsure" for _, said in last)
    wrong = sum(true != said != "unsure" for true, said in last)
    assert (status.spam, status.ham) == (RECENT // 2 + 8,) * 2
    assert [*status.recent.values()] == [len(last), wrong, unsure, last.count(("ham", "spam"))]
    assert min(wrong, unsure) > 0


@pytest.mark.parametrize("texts", [True, False])
def test_lessons_keep_every_field_in_another_store(texts, tmp_path):
    """Also their time, category and sender; a store without texts has none of either."""
    with Filter(tmp_path / "a", create=True) as opened:
        for i in range(3):
            opened.learn(mail("spam", i), "spam")
            opened.learn(mail("ham", i), "ham")
            opened.learn(of("newsletter", i), "newsletter")
        opened.learn(b"Subject: \xff\x00\n\n\x80\r\n" + bytes(range(256)), "spam")
        before = [*opened.lessons.iterate(messages=True), *opened.categories.store().iterate(messages=True)]
    exported = run("mail", "export", tmp_path / "all.jsonl", "--store", tmp_path / "a")
    assert exported.returncode == 0, exported.stderr
    options = [] if texts else ["--without-texts"]
    imported = run("mail", "import", tmp_path / "all.jsonl", "--store", tmp_path / "b", *options)
    assert imported.returncode == 0, imported.stderr
    with Filter(tmp_path / "b") as opened:
        after = [*opened.lessons.iterate(messages=True), *opened.categories.store().iterate(messages=True)]
    assert sorted(lesson.digest for lesson in after) == sorted(lesson.digest for lesson in before)
    for lesson in before:
        other = next(x for x in after if (x.digest, x.kind) == (lesson.digest, lesson.kind))
        assert other.learnt == lesson.learnt
        assert np.array_equal(other.keys, lesson.keys)
        assert np.array_equal(other.values, lesson.values)
        shown = (lesson.subject, lesson.sender, lesson.message) if texts else ("", "", None)
        assert (other.subject, other.sender, other.message) == shown


@pytest.mark.parametrize("most", [1, 3, 12])
def test_as_many_reasons_are_given_as_are_asked_for(most, tmp_path):
    with Filter(taught_store(tmp_path / "store", 6)) as opened:
        everything = opened.reasons(mail("spam", 90), 99)
        assert len(everything) > 12
        assert opened.reasons(mail("spam", 90), most) == everything[:most]


@pytest.mark.parametrize("most", [5, 12])
def test_no_more_lessons_are_kept_than_the_limit(most, tmp_path):
    """After every lesson, also in another process."""
    folder = taught_store(tmp_path / "store", 8)
    with Filter(folder) as opened:
        opened.set_limit(most)
    with Filter(folder) as opened:
        for i in range(20, 24):
            opened.learn(mail("spam" if i % 2 else "ham", i), "spam" if i % 2 else "ham")
            assert sum(opened.counts().values()) == most
            assert opened.status().max_lessons == most


@pytest.mark.parametrize("kind", ["spam", "newsletter"])
def test_every_message_is_counted_once_by_what_became_of_it(kind, tmp_path):
    """Learnt, known, empty, or not read."""
    folder = taught_store(tmp_path / "store", 4)
    messages = [mail("spam", i) for i in (0, 1, 2, 90, 91)] + [b"", b" \n"]
    (tmp_path / "mails").mkdir()
    for number, data in enumerate([*messages, b"\x1f\x8b\x08"]):
        (tmp_path / "mails" / str(number)).write_bytes(data)
    new = 2 if kind == "spam" else 5
    for known in (5 - new, 5):
        done = run("mail", "learn", "--as", kind, "--store", folder, tmp_path / "mails")
        assert done.returncode == 0, done.stderr
        line = done.stderr.decode().splitlines()[-1]
        found = {
            word: int(n) for n, word in re.findall(r"(\d+) (known|empty|not read|messages? learnt)", line)
        }
        counts = {"known": known, "empty": 2, "not read": 1}
        assert found.pop("messages learnt" if known != 4 else "message learnt") == 5 - known
        assert found == {word: n for word, n in counts.items() if n}
        assert (" (a new category)" in line) == (kind != "spam" and known == 0)


def test_as_many_categories_are_learnt_as_are_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(categories, "MAX_CATEGORIES", 2)
    with Filter(tmp_path / "store", create=True) as opened:
        opened.learn(of("orders", 0), NONE)
        for name in ("newsletter", "orders"):
            assert opened.learn(of(name, 1), name)
        refuses("at most 2 categories", opened.learn, of("orders", 2), "invoices")
        assert opened.counts() == {"spam": 0, "ham": 0, NONE: 1, "newsletter": 1, "orders": 1}


@pytest.mark.parametrize("kinds", [(), ("spam",), ("newsletter",), ("ham", "newsletter")])
def test_forgetting_says_whether_there_was_a_lesson(kinds, tmp_path):
    with Filter(taught_store(tmp_path / "store", 2)) as opened:
        for kind in kinds:
            opened.learn(of("newsletter", 1), kind)
        before = opened.counts()
        assert opened.unlearn(of("newsletter", 1)) == bool(kinds)
        assert sum(opened.counts().values()) == sum(before.values()) - len(kinds)
        assert not opened.unlearn(of("newsletter", 1))


def test_categories_are_trained_when_a_filter_is_refreshed(tmp_path):
    """As by the server, which other processes need not wait for to end."""
    folder = taught_store(tmp_path / "store", 4)
    with Filter(folder) as opened:
        opened.learn_all([of("newsletter", i) for i in range(8)], "newsletter")
        assert not (folder / "weights-newsletter").exists()
        opened.refresh()
        assert (folder / "weights-newsletter").exists()


def test_lessons_come_in_the_order_in_which_they_were_learnt(tmp_path):
    """Also those of another store, which are older."""
    with Filter(taught_store(tmp_path / "store", 2)) as opened:
        lessons = [lesson._replace(learnt=1000.0 + k) for k, lesson in enumerate(opened.lessons.iterate())]
    with Filter(tmp_path / "other", create=True) as opened:
        opened.learn(mail("ham", 50), "ham")
        opened.add_lessons(lessons[::-1])
        opened.learn(mail("spam", 50), "spam")
        names = [digest(mail("ham", 50)), *(x.digest for x in lessons[::-1]), digest(mail("spam", 50))]
        assert [row.digest for row in opened.lessons.history()] == names[::-1]
        assert [lesson.digest for lesson in opened.lessons.iterate()] == names
        assert [row.id for row in opened.status().last] == sorted(range(1, 7), reverse=True)


def test_decisions_out_of_fold_are_those_of_the_optimum(tmp_path):
    """So that the dual coefficients of the lessons, from which the machines start, do not matter."""
    with Filter(taught_store(tmp_path / "store", 12)) as opened:
        lessons = list(opened.lessons.iterate())
    other = [lesson._replace(alpha=0.0) for lesson in lessons]
    found = [[x.value for x in out_of_fold(some)] for some in (lessons, other)]
    assert found[0] == pytest.approx(found[1], abs=1e-3)


@pytest.mark.parametrize("kind", ["spam", "ham"])
def test_a_learnt_message_has_the_score_of_its_kind(kind):
    for score in np.linspace(0, 1, 41).tolist():
        decision = Decision(kind_of(score), score, 0.3).for_lesson(kind)
        assert decision.kind == kind_of(decision.score) == kind
        assert decision.score == score or kind_of(score) != kind
        assert Decision(kind_of(score), score, 0.3).for_lesson(None).score == score


# Messages


def test_the_digest_of_a_message_is_that_of_the_message_as_it_was_sent():
    """However damaged: a client and the mail server see the same lesson."""
    messages = [mail("spam", 1), b"", b"no header at all", b"Subject: a\r\nno field\r\nX: b\r\n\r\ntext"]
    messages += [change(data) for data in CLEAN.values() for change in (front(b"\xef\xbb\xbf"), lines_of)]
    assert any(repaired(data) != data for data in messages)
    for data in messages:
        assert read_message(data).digest == RawMessage(data).digest


def lines_of(data):
    """The message with the line ends of old computers."""
    return data.replace(b"\r\n", b"\r")


@pytest.mark.parametrize("name", ["words.txt", "WORDS.TXT", "page.htm", "PAGE.HTML", "words.bin"])
def test_attached_texts_in_uuencode_are_read_in_any_case(name):
    lines = [binascii.b2a_uu(b"hidden words of the mail " + bytes([65 + i])).decode() for i in range(3)]
    data = f"Subject: a\n\nabove\n\nbegin 644 {name}\n{''.join(lines)}`\nend\nbelow\n".encode()
    text = read_message(data).text
    assert ("hidden words" in text) == (not name.endswith("bin"))
    assert f"attachment {name} uuencoded" in text


@pytest.mark.parametrize("letter", ["a", "ü", "Ж", "\U0001d4b3"])
def test_contributions_are_those_of_the_characters_that_are_read(letter):
    """The beginnings of header and text are cut to bytes, also within a letter."""
    for n, m in ((10, 10), (2999, 9999), (3000, 10_000), (9000, 30_000)):
        text = f"X: {letter * n}\n\n{letter * m}"
        keys, values = features(text)
        weights = WeightVector(keys, np.linspace(1, 2, len(keys)).astype(np.float32))
        read, contributions = character_contributions(text, weights)
        assert len(read) == len(contributions)
        assert contributions.sum() == pytest.approx(float(weights.of(keys) @ values), rel=1e-4)
        fields, _, body = read.partition("\n\n")
        assert f"X: {letter * n}".startswith(fields)
        assert (letter * m).startswith(body)


# The client


def test_a_lesson_of_the_spool_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done, fsync, rename = [], os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(os.fstat(handle).st_size) or fsync(handle))
    monkeypatch.setattr(os, "rename", lambda *paths: done.append("name") or rename(*paths))
    client.leave(str(tmp_path), "spam", b"Subject: a\n\ntext\n", client.NoAnswer("no server"))
    assert done == [17, "name"]
    [path] = tmp_path.iterdir()
    assert path.name.endswith(".spam")


@pytest.mark.parametrize("arguments", [["learn", "--as", "ham"], ["unlearn"], ["classify"], ["-p"]])
@pytest.mark.parametrize("given", [[], ["--timeout", "2.5"]])
def test_lessons_have_more_time_than_decisions(arguments, given, tmp_path, monkeypatch):
    asked = []

    def ask(path, request, data, seconds=None):
        asked.append(seconds)
        raise client.Trouble("no")

    monkeypatch.setattr(client, "ask", ask)
    (tmp_path / "m").write_bytes(mail("ham", 1))
    assert client.run([*arguments, *given, str(tmp_path / "m")]) == 3
    usual = 60.0 if arguments[0] in ("learn", "unlearn") else 10.0
    assert asked == [2.5 if given else usual]
