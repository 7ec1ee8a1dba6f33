"""Categories of mail beside spam and ham: lessons, decisions, fields, commands, server and damage."""

import json
import sqlite3
from contextlib import closing

import pytest
from mails import learnt_kind, mail, taught_store
from refusals import refuses
from test_mail_cli import HAM, SPAM, call

from textsvm.apps.mail import spamd
from textsvm.apps.mail.categories import MAX_CATEGORIES, NONE
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.lessons import CATEGORIES_FILE, FILE
from textsvm.apps.mail.raw_message import marked
from textsvm.errors import InputError

WORDS = {
    "newsletter": "unsubscribe weekly digest edition headlines stories subscribers archive readers issue",
    "orders": "invoice shipment parcel tracking receipt payment delivery warehouse quantity total",
}


def of(category, number):
    """A message of a category, always the same."""
    words = WORDS[category].split()
    text = " ".join(words[(number * k + k) % 10] for k in range(1, 25))
    return (
        f"From: {words[number % 10]}@example.org\nSubject: {words[number % 7]} {number}\n\n{text}\n".encode()
    )


@pytest.fixture(scope="module", autouse=True)
def _time_to_settle():
    """Let each machine reach its optimum, also where its functions must first be compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textsvm.apps.mail.filter.SETTLING", 60.0)
        yield


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A store of thirty mails of spam and of ham, and twenty of each category; nobody changes it."""
    folder = taught_store(tmp_path_factory.mktemp("taught") / "store", 30)
    with Filter(folder) as opened:
        for category in WORDS:
            opened.learn_all([of(category, i) for i in range(20)], category)
    return folder


def categories(folder, messages):
    with Filter(folder) as opened:
        return [opened.classify(data).category for data in messages]


def test_messages_are_recognised(store):
    unseen = [of(name, i) for name in WORDS for i in range(100, 110)]
    found = categories(store, unseen + [mail(kind, i) for kind in ("spam", "ham") for i in range(100, 110)])
    assert found == ["newsletter"] * 10 + ["orders"] * 10 + [""] * 20


def test_spam_and_ham_stay_as_they_are(store, taught, tmp_path):
    plain = taught_store(tmp_path / "plain", 30)
    messages = [mail(kind, i) for kind in ("spam", "ham") for i in range(60, 80)]
    with Filter(plain) as one, Filter(store) as other:
        for data in messages:
            assert one.classify(data) == other.classify(data)
            assert marked(data, one.classify(data)) == marked(data, other.classify(data))
    rows = []
    for folder in (plain, store):
        with closing(sqlite3.connect(folder / FILE)) as sql:
            rows.append(sql.execute("select digest, kind, value, score, alpha from lessons").fetchall())
    assert rows[0] == rows[1]
    assert sorted(file.name for file in plain.iterdir()) == ["lessons.sqlite", "weights"]


def test_a_message_has_a_class_and_a_category(store):
    data = of("newsletter", 200)
    with Filter(store) as opened:
        assert opened.learn(data, "ham")
        assert opened.classify(data)[:2] == ("ham", opened.classify(data).score)
        assert opened.classify(data).category == "newsletter"
        assert opened.learn(data, "orders")  # moved, whatever the machine says
        assert not opened.learn(data, "orders")
        assert (opened.classify(data).kind, opened.classify(data).category) == ("ham", "orders")
        assert opened.classify(data).category_score >= 0.9
        assert opened.learn(data, NONE)
        assert opened.classify(data).category == ""
        assert learnt_kind(opened, data) == "ham"
        assert opened.unlearn(data)
        assert not opened.unlearn(data)
        assert learnt_kind(opened, data) is None


def test_counterexamples_correct_a_category(store):
    words = b"the weekly archive of stories, headlines, edition and issue of the readers"
    wrong = b"Subject: minutes\n\n" + words + b"\n"
    similar = [wrong.replace(b"minutes", b"minutes %d" % i) for i in range(8)]
    with Filter(store) as opened:
        assert opened.classify(wrong).category == "newsletter"
        assert opened.learn_all(similar, NONE) == 8
    other = wrong.replace(b"minutes", b"minutes of may")
    assert categories(store, [other, of("newsletter", 300)]) == ["", "newsletter"]


def test_one_category_alone_needs_other_mail(tmp_path):
    with Filter(tmp_path, create=True) as opened:
        opened.learn_all([of("newsletter", i) for i in range(20)], "newsletter")
    assert categories(tmp_path, [of("newsletter", 50), of("orders", 50)]) == ["", ""]
    with Filter(tmp_path) as opened:
        opened.learn_all([of("orders", i) for i in range(20)], NONE)
    assert categories(tmp_path, [of("newsletter", 50), of("orders", 50)]) == ["newsletter", ""]


def test_other_processes_see_the_lessons_and_the_weights_are_a_cache(store):
    with Filter(store) as server:
        data = of("orders", 400)
        assert server.classify(data).category == "orders"
        with Filter(store) as other:
            other.unlearn(data)
            assert other.categories.forget(category="orders") == 20
        assert server.classify(data).category == ""
        assert not (store / "weights-orders").exists()
        score = server.classify(of("newsletter", 400)).category_score
    (store / "weights-newsletter").write_bytes(b"damaged")
    with Filter(store) as again:
        decision = again.classify(of("newsletter", 400))
    assert decision.category == "newsletter"
    assert decision.category_score == pytest.approx(score, abs=1e-6)


def test_names(store):
    for name in ("Newsletter", "a b", "-a", "a-", "a_b", "", "naïve", "²", "x" * 41, "unsure", "a:b", "a\nb"):
        with Filter(store) as opened, pytest.raises(InputError, match=r"up to 40 lower-case letters"):
            opened.learn(SPAM, name)
    with Filter(store) as opened:
        for number in range(MAX_CATEGORIES - len(WORDS)):
            opened.learn(of("orders", 500 + number), f"kind-{number:x<35}")
        refuses(r"at most 20 categories.*unlearn --category", opened.learn, SPAM, "one-more")
        assert opened.learn(of("orders", 600), NONE)
        opened.categories.forget(category=f"kind-{0:x<35}")
        assert opened.learn(SPAM, "one-more")


def test_fields(store):
    data = of("newsletter", 700)
    forged = b"X-Textsvm-Orders: Yes, score=1\nX-Textsvm: Ham\nx-textsvm-newsletter: Yes\n" + data
    with Filter(store) as opened:
        decision = opened.classify(forged)
        lines = marked(forged, decision).split(b"\n\n")[0].split(b"\n")
        assert b"X-Textsvm-" not in marked(HAM, opened.classify(HAM))
    names = [line.split(b":")[0] for line in lines]
    assert names == [b"From", b"Subject", b"X-Textsvm", b"X-Textsvm-Newsletter"]
    assert lines[-1].startswith(b"X-Textsvm-Newsletter: Yes, score=0.9")
    with Filter(store) as opened:  # the field changes neither the digest nor the decision
        assert opened.learn(data, "ham")
        assert learnt_kind(opened, marked(data, decision)) == "ham"


# Commands


def test_commands(store, tmp_path):
    (tmp_path / "new.eml").write_bytes(of("orders", 800))
    (tmp_path / "old.eml").write_bytes(of("orders", 3))
    result = call("learn", "--as", "orders", tmp_path / "new.eml", tmp_path / "old.eml")
    assert (result.exit_code, result.stderr) == (
        0,
        "1 message learnt as orders, 1 known already; there are 21 orders now\n",
    )
    assert call("learn", "--as", "bills", tmp_path / "old.eml").stderr.endswith(
        "1 bills (a new category) now\n"
    )
    assert call("learn", "--as", "newsletter", tmp_path / "old.eml").stderr.startswith("1 message learnt as")
    table = json.loads(call("status", "--json").stdout)["categories"]
    assert table["newsletter"] == {"lessons": 21, "judged": 1, "recognised": 0}
    assert table["orders"] == {"lessons": 20, "judged": 1, "recognised": 1}
    assert "orders" in call("status").stdout
    assert call("status", "--check").exit_code == 0
    row = json.loads(call("classify", "--json", stdin=of("orders", 801)).stdout)
    assert (row["category"], row["category_score"] >= 0.9) == ("orders", True)
    assert call("classify", stdin=of("orders", 801)).stdout.endswith(" orders\n")
    assert b"\nX-Textsvm-Orders: Yes" in call("classify", "-p", stdin=of("orders", 801)).stdout_bytes
    assert "category" not in json.loads(call("classify", "--json", stdin=HAM).stdout)
    assert call("unlearn", tmp_path / "new.eml").exit_code == 0
    assert call("unlearn", "--category", "orders").stderr == "19 messages forgotten\n"
    result = call("unlearn", "--category", "orders")
    assert (result.exit_code, "no category orders" in result.stderr) == (3, True)
    assert call("unlearn", "--category", "newsletter", tmp_path / "new.eml").exit_code == 3
    assert "orders" not in call("classify", stdin=of("orders", 801)).stdout


def test_export_and_import(store, tmp_path, monkeypatch):
    assert call("export", tmp_path / "lessons.jsonl").stderr == "100 lessons written\n"
    assert call("import", tmp_path / "lessons.jsonl", "--store", tmp_path / "copy").exit_code == 0
    messages = [of(name, i) for name in WORDS for i in range(900, 905)]
    with Filter(store) as one, Filter(tmp_path / "copy") as other:
        assert one.categories.status().keys() == other.categories.status().keys()
        for data in messages:
            assert one.classify(data)[::3] == other.classify(data)[::3]
    assert call("retrain").exit_code == 0
    assert categories(store, messages) == ["newsletter"] * 5 + ["orders"] * 5
    call("learn", "--as", "ham", "--without-texts", "--store", tmp_path / "bare", stdin=HAM)
    call("learn", "--as", "orders", "--store", tmp_path / "bare", stdin=of("orders", 1))
    with closing(sqlite3.connect(tmp_path / "bare" / CATEGORIES_FILE)) as sql:
        assert sql.execute("select message from bodies").fetchall() == [(None,)]


def test_damage_is_reported_and_the_rest_exported(store, tmp_path):
    for damage in ("bodies set weights = x'00' where id = 2", "lessons set kind = 'orders' where id = 1"):
        with closing(sqlite3.connect(store / CATEGORIES_FILE)) as sql:
            sql.execute(f"update {damage}")
            sql.commit()
        result = call("status", "--check")
        assert (result.exit_code, "categories.sqlite is damaged" in result.stderr) == (3, True)
    assert call("export", tmp_path / "lessons.jsonl").stderr.startswith("99 lessons written; 1 damaged")


def test_a_store_of_earlier_features_is_refused(store):
    with Filter(store) as opened:
        with opened.lessons.writing():
            opened.lessons.set_meta("features", [4, 3000, 10_000])
        refuses("retrain", opened.learn, of("orders", 1000), "orders")


# Server


def test_protocol(store):
    data = of("newsletter", 1100)
    with Filter(store) as opened:
        answer = b"".join(spamd.check(spamd.Request("CHECK", 1.5), data, opened.classify(data), opened))
        assert b"\r\nCategory: newsletter 0.9" in answer
        assert b"\r\nX-Textsvm-Newsletter: Yes" in b"".join(
            spamd.check(spamd.Request("HEADERS", 1.5), data, opened.classify(data), opened)
        ).replace(b"\n", b"\r\n")
        symbols = b"".join(spamd.check(spamd.Request("SYMBOLS", 1.5), data, opened.classify(data), opened))
        assert symbols.split(b"\r\n\r\n")[1].endswith(b",TEXTSVM_NEWSLETTER")
        assert b"category: newsletter" in b"".join(
            spamd.check(spamd.Request("REPORT", 1.5), data, opened.classify(data), opened)
        )
        request = spamd.Request("TELL", 1.5)
        request = spamd.read_fields(request, [b"Message-class: orders", b"Set: local"])
        assert b"DidSet" in spamd.tell(request, data, opened)
        opened.refresh()
        assert opened.classify(data).category == "orders"
        assert b"DidRemove" in spamd.tell(spamd.Request("TELL", 1.5, remove=True), data, opened)
        for name in (b"Or ders", b"unsure", b"a_b"):
            with pytest.raises(spamd.Refused, match="category"):
                spamd.read_fields(spamd.Request("TELL", 1.5), [b"Message-class: " + name, b"Set: local"])
