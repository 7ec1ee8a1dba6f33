"""What holds for all lessons of the mail filter: each counts once, and figures say what was seen before."""

import pytest
from command import run
from mails import mail, taught_store
from test_mail_categories import of

from textsvm.apps.mail import categories
from textsvm.apps.mail.categories import NONE
from textsvm.apps.mail.filter import Filter
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
