"""What holds for all lessons of the mail filter: each counts once, and figures say what was seen before."""

import numpy as np
import pytest
from command import run
from mails import mail, taught_store
from test_mail_categories import of

from textsvm.apps.mail import categories
from textsvm.apps.mail.categories import NONE
from textsvm.apps.mail.filter import RECENT, Filter
from textsvm.apps.mail.lessons import MAX_KEPT
from textsvm.apps.mail.raw_message import RawMessage


def digest(data):
    return RawMessage(data).digest


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_categories_are_trained_on_every_lesson_once_and_on_the_newest_of_the_rest(tmp_path, monkeypatch):
    trained = {}

    def weights(name, lessons):
        trained[name] = lessons
        return computed(name, lessons)

    computed = categories._weights
    monkeypatch.setattr(categories, "_weights", weights)
    monkeypatch.setattr(categories, "REST", 6)
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
    assert status.recent == (len(last), wrong, unsure, last.count(("ham", "spam")))
    assert min(wrong, unsure) > 0


@pytest.mark.parametrize("texts", [True, False])
def test_lessons_keep_every_field_in_another_store(texts, tmp_path):
    """Also their time, category and sender; a store without texts has none of either."""
    with Filter(tmp_path / "a", create=True) as opened:
        for i in range(3):
            opened.learn(mail("spam", i), "spam")
            opened.learn(mail("ham", i), "ham")
            opened.learn(of("newsletter", i), "newsletter")
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
