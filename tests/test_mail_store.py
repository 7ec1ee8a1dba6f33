"""The filter and its lessons on disk: what it says, and what is left after every kind of trouble."""

import json
import os
import random
import re
import shutil
import sqlite3
import stat
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from command import works
from mails import learnt_kind, mail, taught_store, teach
from refusals import refuses

from textsvm.apps.mail import lessons as lesson_store
from textsvm.apps.mail import spamd
from textsvm.apps.mail.client import NoAnswer, leave
from textsvm.apps.mail.decision import Decision, kind_of
from textsvm.apps.mail.features import (
    WeightVector,
    character_contributions,
    features,
    read_weights,
    sum_vectors,
    word_contributions,
)
from textsvm.apps.mail.filter import Filter, lesson_line, parse_lessons
from textsvm.apps.mail.lessons import CATEGORIES_FILE, FILE, FORMAT, Lesson, Lessons, packed, unpacked
from textsvm.apps.mail.message import read_message
from textsvm.apps.mail.raw_message import raw_messages
from textsvm.apps.mail.report import filter_report
from textsvm.apps.mail.server import learn_spool, listen
from textsvm.errors import InputError
from textsvm.runtime.files import replacing
from textsvm.solvers.online import OnlineMachine


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A store of ten mails of each kind, to be copied."""
    return taught_store(tmp_path_factory.mktemp("taught"), 10)


@pytest.fixture
def store(taught, tmp_path):
    """A folder with a copy of it."""
    folder = tmp_path / "store"
    shutil.copytree(taught, folder)
    return folder


def copy_of_rows(folder, table="lessons"):
    with sqlite3.connect(folder / FILE) as connection:
        return connection.execute(f"select * from {table} order by 1").fetchall()


def kinds_of(opened):
    """Digest -> kind of the lessons, in the order of learning."""
    return {lesson.digest: lesson.kind for lesson in opened.lessons.iterate()}


# What it says


def test_no_lesson_says_nothing(tmp_path):
    for create in (True, False):
        with Filter(tmp_path, create=create) as opened:
            assert opened.classify(mail("spam", 1)) == Decision("unsure", 0.5, 0.0)
            assert opened.reasons(mail("spam", 1)) == []


@pytest.mark.parametrize(("kind", "sign"), [("spam", 1), ("ham", -1)])
def test_one_kind_alone_is_unsure_of_all_but_its_lessons_and_ranks_what_is_like_it(tmp_path, kind, sign):
    """A lesson keeps its kind; any other message is unsure, whatever its score."""
    for create in (True, False):
        with Filter(tmp_path, create=create) as opened:
            opened.learn(mail(kind, 1), kind)
            copy, other = opened.classify(mail(kind, 1)), opened.classify(b"Subject: zzzz\n\nqqqq qqqq\n")
        assert (copy.kind, other.kind) == (kind, "unsure")
        assert 0.5 < sign * (copy.value - other.value) <= 1.001
        assert sign * copy.value > 0.5 > abs(other.value)
        assert sign * (copy.score - other.score) > 0


def test_a_lesson_is_on_its_side_though_it_contradicts_the_others(store):
    """Also while others are learnt, and in a process that only decides."""
    with Filter(store) as opened:
        opened.learn(mail("ham", 990), "spam")
        opened.learn(mail("spam", 990), "ham")
        for _ in range(2):
            wrong = opened.classify(mail("ham", 990)), opened.classify(mail("spam", 990))
            assert [decision.kind for decision in wrong] == ["spam", "ham"]
            assert wrong[0].score >= 0.99
            assert wrong[1].score <= 0.45
            opened.refresh()
    with Filter(store) as opened:
        assert opened.classify(mail("ham", 990)).kind == "spam"
        assert opened.unlearn(mail("ham", 990))
        assert opened.classify(mail("ham", 990)).kind != "spam"


def test_a_process_that_only_decides_says_what_the_learner_said(tmp_path):
    with Filter(tmp_path, create=True) as opened:
        teach(opened, 8)
        said = [opened.classify(mail(kind, i)).value for kind in ("spam", "ham") for i in range(50, 55)]
        stale = (tmp_path / "weights").exists()
    assert not stale
    for weights in ("as the learner left them", "deleted", "cut off", "another store's"):
        file = tmp_path / "weights"
        if weights == "deleted":
            file.unlink()
        elif weights == "cut off":
            file.write_bytes(file.read_bytes()[:-4])
        elif weights == "another store's":
            file.write_bytes(file.read_bytes()[:20] + b"x" + file.read_bytes()[21:])
        with Filter(tmp_path) as opened:
            again = [opened.classify(mail(kind, i)).value for kind in ("spam", "ham") for i in range(50, 55)]
            assert opened._machine is None
        np.testing.assert_allclose(again, said, atol=1e-5)
        assert file.stat().st_size % 12 == 64 % 12


def test_thresholds_are_bogofilters():
    assert [kind_of(score) for score in (0, 0.45, 0.450001, 0.98999, 0.99, 1)] == [
        "ham", "ham", "unsure", "unsure", "spam", "spam"
    ]  # fmt: skip


def test_a_lesson_that_is_moved_keeps_the_decision_from_before_it_was_learnt(store):
    data = mail("spam", 500)
    key = read_message(data).digest
    with Filter(store) as opened:
        foreseen = opened.classify(data)
        opened.learn(data, "ham")  # a mistake, corrected below
        assert opened.classify(data).value < foreseen.value
        opened.learn(data, "spam")
        lesson = opened.lessons.get(key)
        assert lesson.kind == "spam"
        assert (lesson.value, lesson.score) == pytest.approx((foreseen.value, foreseen.score), abs=1e-5)
        opened.unlearn(data)
        foreseen = opened.classify(data)
        opened.learn(data, "spam")
        assert opened.lessons.get(key).value == pytest.approx(foreseen.value, abs=1e-5)


def test_a_moved_lesson_has_its_alpha_on_disk(tmp_path):
    """Also if the alpha before and after is the bound C."""
    keys, values = np.arange(1, 5, dtype=np.uint64), np.full(4, 0.5, np.float32)
    with Filter(tmp_path, create=True) as opened:
        for name, kind in (("a", "spam"), ("b", "ham"), ("c", "spam"), ("d", "spam"), ("a", "ham")):
            opened.add_lessons([Lesson(name * 64, kind, keys, values)])
        on_disk = {lesson.digest: lesson.alpha for lesson in opened.lessons.iterate()}
        assert on_disk == opened._machine.alphas
        expected = opened._decide(opened._machine, keys, values).value
    (tmp_path / "weights").unlink()
    with Filter(tmp_path) as opened:
        assert opened.model().decide(keys, values).value == pytest.approx(expected, abs=1e-6)


def test_lessons_have_no_decision_before_both_kinds_are_known(tmp_path):
    with Filter(tmp_path, create=True) as opened:
        for number, kind in enumerate(("spam", "spam", "ham", "ham")):
            opened.learn(mail(kind, number), kind)
        values = [opened.lessons.get(read_message(mail(kind, number)).digest).value
                  for number, kind in enumerate(("spam", "spam", "ham", "ham"))]  # fmt: skip
        assert [value is None for value in values] == [True, True, True, False]
        opened.learn(mail("spam", 0), "ham")
        moved = opened.lessons.get(read_message(mail("spam", 0)).digest)
        assert (moved.kind, moved.value, moved.score) == ("ham", None, None)


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_leaves_what_was_said_last(tmp_path, seed):
    """Learn, change minds, forget, come back: lessons as in a dict, and a machine trained on those."""
    draw = random.Random(seed)
    mails = [mail(kind, i) for kind in ("spam", "ham") for i in range(6)] + [b"", b"\x00", b"Subject: x\n\n"]
    expected = {}
    opened = Filter(tmp_path / "a", create=True)
    for _ in range(50):
        data, what = draw.choice(mails), draw.choice(["spam", "ham", "unlearn", "reopen"])
        if what == "reopen":
            opened.close()
            opened = Filter(tmp_path / "a")
        elif what == "unlearn":
            assert opened.unlearn(data) == (expected.pop(data, None) is not None)
        elif b":" not in data:
            refuses("it has no header", opened.learn, data, what)
        else:
            assert opened.learn(data, what) == (expected.get(data) != what)
            expected[data] = what
    with opened, Filter(tmp_path / "b", create=True) as other:
        for data, kind in expected.items():
            assert learnt_kind(opened, data) == kind
            other.learn(data, kind)
        kinds = list(expected.values())
        assert opened.lessons.counts() == {kind: kinds.count(kind) for kind in ("spam", "ham")}
        assert sorted(kinds_of(opened)) == sorted(kinds_of(other))
        for i in range(100, 105):
            assert opened.classify(mail("ham", i)).value == pytest.approx(
                other.classify(mail("ham", i)).value, abs=5e-3
            )


NO_MAILS = {
    "PNG": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01",
    "ELF": b"\x7fELF\x02\x01\x01" + bytes(200),
    "archive": b"PK\x03\x04" + bytes(60),
    "JSON": b'{"subject": "prize", "text": "cash"}\n',
    "CSV": b"from,subject\nann,prize\nbob,cash\n",
    "text": b"Dear reader,\n\nnote: this is a text, no mail.\n",
    "nothing": b"",
    "blanks": b" \n\r\n",
}


@pytest.mark.parametrize("name", NO_MAILS)
def test_what_is_no_mail_is_not_learnt(name, store):
    """By the server and its clients too, which send any bytes; `mail learn` refuses such files itself."""
    request = spamd.Request("TELL", 1.5, kind="spam", set=True)
    with Filter(store) as opened:
        before = opened.counts()
        refuses(r"^nothing was learnt: this is ", spamd.tell, request, NO_MAILS[name], opened)
        assert opened.counts() == before
        assert opened.learn_all([NO_MAILS[name], b"Subject: prize\n\ncash\n"], "spam") == 1
        assert not opened.unlearn(NO_MAILS[name])
        assert opened.classify(NO_MAILS[name]).kind in ("spam", "ham", "unsure")


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_mail_of_another_charset_is_learnt(charset, store):
    bom = "\ufeff" if charset == "utf-16-le" else ""
    with Filter(store) as opened:
        assert opened.learn(f"{bom}Subject: prize\n\ncash\n".encode(charset), "spam")


def test_a_kind_is_spam_or_ham_or_the_name_of_a_category(store):
    with Filter(store) as opened, pytest.raises(InputError, match="got 'Eggs!'"):
        opened.learn(mail("ham", 1), "Eggs!")


def test_many_are_learnt_in_parts(tmp_path):
    with Filter(tmp_path, create=True) as opened:
        assert opened.learn_all((mail("ham", i) for i in [*range(60), 0, 1]), "ham") == 60
        assert opened.learn_all((mail("spam", i) for i in range(60)), "spam") == 60
        generation = opened.lessons.generation
        assert opened.lessons.counts() == {"spam": 60, "ham": 60}
    assert generation < 120
    with Filter(tmp_path) as opened:
        assert opened.classify(mail("spam", 99)).value > 0 > opened.classify(mail("ham", 99)).value


def test_many_that_take_long_are_settled_in_the_end(tmp_path, monkeypatch):
    whole = OnlineMachine.settle
    monkeypatch.setattr(OnlineMachine, "settle", lambda self, s=None: s is None and whole(self))
    with Filter(tmp_path, create=True) as opened:
        opened.learn_all((mail("ham", i) for i in range(40)), "ham")
        opened.learn_all((mail("spam", i) for i in range(40)), "spam")
        assert opened._machine.violation <= opened._machine.tol


def test_most_lessons_are_kept_to(store):
    with Filter(store) as opened:
        opened.set_limit(12)
        opened.learn(mail("spam", 50), "spam")
        assert sum(opened.lessons.counts().values()) == 12
        assert min(opened.lessons.counts().values()) > 0
        assert set(kinds_of(opened)) == set(opened._machine.alphas)
        assert opened.classify(mail("spam", 99)).value > 0 > opened.classify(mail("ham", 99)).value


def test_reasons_are_words_and_their_shares_add_up(store):
    with Filter(store) as opened:
        weights = opened.model().weights
        assert max(dict(opened.reasons(mail("spam", 77), most=100)).values()) > 0
        texts = [
            "viagra meeting prize",
            "",
            "abc",
            "日本語 viagra " * 300,
            "x" * 2999 + "é",
            "a\udc80 viagra",
            "To: Viagra 123\n\nviagra viagra",
            "To: " + "é" * 1999 + "\n\nviagra",
            "To: viagra\n\n",
            "\n\nviagra",
        ]
        for text in texts:
            keys, values = features(text)
            read, shares = character_contributions(text, weights)
            assert len(read) == len(shares)
            assert shares.sum() == pytest.approx(float(weights.of(keys) @ values), abs=1e-6)
        top = [word for word, share in word_contributions("casino meeting casino", weights) if share > 0]
        assert top == ["casino"]


def test_weights_are_summed_and_read_back(tmp_path):
    draw = np.random.default_rng(1)
    vectors = [(np.unique(draw.integers(0, 50, 20)).astype(np.uint64), factor) for factor in (0.5, -2.0, 1.0)]
    dense = np.zeros(50)
    for keys, factor in vectors:
        dense[keys.astype(int)] += factor * 0.25
    total = sum_vectors((keys, np.full(len(keys), 0.25, np.float32), factor) for keys, factor in vectors)
    np.testing.assert_allclose(total.of(np.arange(60, dtype=np.uint64))[:50], dense, atol=1e-7)
    total.write(tmp_path / "weights", 7)
    back = read_weights(tmp_path / "weights", 7)
    assert (back.keys == total.keys).all()
    assert (back.values == total.values).all()
    assert read_weights(tmp_path / "weights", 8) is None
    assert WeightVector(total.keys[:0], total.values[:0]).of(total.keys).sum() == 0


# What is on disk


def test_files_are_their_owners_alone(tmp_path):
    mask, folder = os.umask(0), tmp_path / "new" / "textsvm"
    try:
        with Filter(folder, create=True) as opened:
            teach(opened, 2)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        assert modes.keys() >= {FILE, FILE + "-wal", FILE + "-shm"}
        modes["weights"] = stat.S_IMODE((folder / "weights").stat().st_mode)
        assert set(modes.values()) == {0o600}, modes
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(mask)


def test_a_commit_waits_for_the_disk(store):
    with Filter(store) as opened:
        assert opened.lessons.pragma("synchronous") == 2
        assert opened.lessons.pragma("journal_mode") == "wal"


def test_a_store_without_texts_holds_none(tmp_path):
    word = b"schadenfreude"
    with Filter(tmp_path, create=True, texts=False) as opened:
        teach(opened, 3)
        opened.learn(b"From: schadenfreude@example.org\nSubject: schadenfreude\n\nschadenfreude\n", "spam")
        assert not opened.status().texts
        assert opened.retrain() == 7
        assert filter_report(opened).mistakes == []
    with Filter(tmp_path, texts=True) as opened:
        assert not opened.lessons.holds_texts
    assert word not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def fails(folder, **options):
    with pytest.raises(InputError) as error:
        Filter(folder, **options).close()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_another_programs_file_is_left_alone(store, tmp_path):
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("create table mine (x)")
    for data in ((tmp_path / FILE).read_bytes(), b"From: me\n\nnot a database\n" * 100):
        (tmp_path / FILE).write_bytes(data)
        for create in (False, True):
            assert "is not a mail store" in fails(tmp_path, create=create)
        assert (tmp_path / FILE).read_bytes() == data
    with sqlite3.connect(store / FILE) as connection:
        connection.execute(f"pragma user_version = {FORMAT + 1}")
    assert "newer textsvm" in fails(store)


def test_no_store_is_a_sentence(tmp_path):
    assert "there is no mail store" in fails(tmp_path)
    (tmp_path / FILE).touch()
    assert "cannot create" in fails(tmp_path / FILE / "folder", create=True)
    assert "is empty" in fails(tmp_path)
    with Filter(tmp_path, create=True) as opened:  # an empty file becomes a store
        assert opened.learn(mail("ham", 1), "ham")


@pytest.mark.parametrize("keys", [[], [7], [1, 2, 9], [0, 5, 1 << 40], [3 << 56, 4 << 56, (1 << 64) - 1]])
@pytest.mark.parametrize("same", [True, False])
def test_features_are_packed_and_unpacked(keys, same):
    values = np.full(len(keys), 0.3, np.float32) if same else np.arange(len(keys), dtype=np.float32)
    found = unpacked(*packed(Lesson("0", "ham", np.array(keys, np.uint64), values)))
    assert found[0].tolist() == keys
    assert found[1].tolist() == values.tolist()


def test_a_file_that_cannot_be_written_is_a_sentence_and_nothing_is_half_done(store):
    with Filter(store) as opened:
        before = kinds_of(opened)
        opened.lessons.sql.execute("pragma query_only = 1")
        refuses("read-only", opened.learn, mail("ham", 500), "ham")
        opened.lessons.sql.execute("pragma query_only = 0")
        assert kinds_of(opened) == before
        assert opened.learn(mail("ham", 500), "ham")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_the_user_may_not_do_is_a_sentence(taught):
    with Filter(taught) as opened:
        opened.classify(mail("ham", 1))  # whatever is imported is imported now
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / FILE).write_bytes((taught / FILE).read_bytes())
        for mode, expected in ((0o555, "read-only|writable"), (0o000, "cannot open")):
            folder.chmod(mode)
            for create in (False, True):
                said = as_nobody(
                    lambda create=create: Filter(folder, create=create).learn(mail("ham", 1), "spam")
                )
                assert re.search(expected, said)
        folder.chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_what_root_creates_belongs_to_the_owner_of_the_folder(tmp_path):
    """Else the server of the store, another user, could not read or replace it."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65533)
    (tmp_path / "spam").write_bytes(mail("spam", 1))
    (tmp_path / "ham").write_bytes(mail("ham", 1))
    store = home / ".local" / "share" / "textsvm"
    for words in (["--as", "spam", "spam"], ["--as", "ham", "ham"], ["--as", "orders", "ham"]):
        works("mail", "learn", "--store", store, *words[:2], tmp_path / words[2])
    with Filter(store) as opened:
        opened.learn(mail("ham", 2), "ham")
        names = {file.name for file in store.iterdir()}
        listen(store / "socket").close()
        learn_spool(opened, store / "spool", print)
        leave(os.fspath(store / "spool"), "ham", b"", NoAnswer())
    replaced = store / "weights"
    os.chown(replaced, 65532, 65531)
    with replacing(replaced) as temporary:
        temporary.write_bytes(b"")
    assert {FILE, CATEGORIES_FILE, f"{FILE}-wal", f"{FILE}-shm", "weights", "weights-orders"} <= names
    owners = {path: (path.lstat().st_uid, path.lstat().st_gid) for path in home.rglob("*")}
    assert owners.pop(replaced) == (65532, 65531)
    assert {*owners.values()} == {(65534, 65533)}, owners
    assert {"socket", "socket.lock", "spool"} < {path.name for path in owners}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_read_only_store_is_read(taught):
    def answers():
        with closing(Lessons(folder, damaged=True)) as lessons:
            exported = len(list(lessons.intact()))
        with Filter(folder) as opened:
            return opened.classify(mail("ham", 1)), opened.status().ham, exported

    def compare():
        raise InputError("the same" if answers() == expected else "other answers")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / FILE).write_bytes((taught / FILE).read_bytes())
        expected = answers()
        (folder / "weights").unlink()
        folder.chmod(0o555)
        assert as_nobody(compare) == "the same"
        assert [file.name for file in folder.iterdir()] == [FILE]
        folder.chmod(0o755)
        with Filter(folder) as writer:
            writer.unlearn(mail("ham", 0))  # in the WAL
            expected = answers()
            for file in folder.iterdir():
                file.chmod(0o644)
            folder.chmod(0o555)
            assert as_nobody(compare) == "the same"
        folder.chmod(0o755)


def as_nobody(work):
    """The sentence with which work fails for a user who has no rights."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            work()
        except InputError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as stream:
        return stream.read()


def test_a_full_disk_is_a_sentence_and_nothing_is_half_done(store):
    with Filter(store) as opened:
        before = kinds_of(opened)
        opened.lessons.sql.execute(f"pragma max_page_count = {opened.lessons.pragma('page_count')}")
        refuses("disk is full", opened.learn_all, (mail("ham", i, words=900) for i in range(500, 505)), "ham")
        opened.lessons.sql.execute("pragma max_page_count = 1000000")
        assert len({name: kind for name, kind in kinds_of(opened).items() if name not in before}) < 5
        opened.lessons.check_file()
        assert opened.learn(mail("ham", 600), "ham")


def test_a_failure_on_the_way_to_the_optimum_learns_nothing(store, monkeypatch):
    with Filter(store) as opened:
        before = copy_of_rows(store)
        with monkeypatch.context() as patch:
            patch.setattr(OnlineMachine, "settle", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                opened.learn(mail("ham", 500), "ham")
        assert copy_of_rows(store) == before
        assert opened.learn(mail("ham", 500), "ham")
        assert opened.classify(mail("spam", 99)).value > 0


# Several at once


def test_a_second_writer_waits_and_says_so_when_it_takes_too_long(store, monkeypatch):
    monkeypatch.setattr(lesson_store, "LOCK_TIMEOUT", 0.5)
    other = sqlite3.connect(store / FILE, isolation_level=None, check_same_thread=False)
    with Filter(store) as opened:
        other.execute("begin immediate")
        refuses("another process", opened.learn, mail("ham", 500), "ham")
        assert opened.classify(mail("ham", 500)).value < 0  # readers go on
        threading.Timer(0.2, other.close).start()
        assert opened.learn(mail("ham", 500), "ham")


def test_what_another_process_learns_is_known(store):
    with Filter(store) as one, Filter(store) as other:
        one.learn(mail("ham", 500), "ham")
        assert other.learn(mail("spam", 500), "spam")
        assert one.learn(mail("spam", 501), "spam")
        assert other.unlearn(mail("ham", 500))
        assert one.lessons.counts() == other.lessons.counts() == {"spam": 12, "ham": 10}
        assert one.classify(mail("ham", 9)).value == pytest.approx(
            other.classify(mail("ham", 9)).value, abs=1e-5
        )
        one.learn(mail("ham", 502), "ham")
        assert one._machine.alphas.keys() == set(kinds_of(other))


def test_threads_may_share_a_filter(store):
    with Filter(store) as opened:
        wrong = []

        def ask():
            for i in range(20):
                if not opened.classify(mail("spam", i)).value > opened.classify(mail("ham", i)).value:
                    wrong.append(i)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for each in threads:
            each.start()
        teach(opened, 5, first=700)
        for each in threads:
            each.join()
        assert wrong == []
        assert sum(opened.lessons.counts().values()) == 30


def test_a_store_may_be_created_by_several_at_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        created = pool.map(lambda i: Filter(tmp_path / "new", create=True), range(8))
        for number, opened in enumerate(created):
            with opened:
                assert opened.learn(mail("ham", number), "ham")
                assert opened.lessons.counts() == {"spam": 0, "ham": number + 1}


def test_decisions_do_not_wait_for_a_lesson_on_its_way(store, monkeypatch):
    entered, go_on = threading.Event(), threading.Event()
    with Filter(store) as opened:
        opened.learn(mail("ham", 500), "ham")
        opened.refresh()
        before = opened.classify(mail("spam", 99)).value
        whole = OnlineMachine.settle

        def slow(self, seconds=None):
            entered.set()
            assert go_on.wait(10)
            return whole(self, seconds)

        with monkeypatch.context() as patch:
            patch.setattr(OnlineMachine, "settle", slow)
            learner = threading.Thread(target=opened.learn, args=(mail("spam", 99), "spam"))
            learner.start()
            assert entered.wait(10)
            assert opened.classify(mail("spam", 99)).value == pytest.approx(before, abs=1e-5)
            go_on.set()
            learner.join()
        assert opened.classify(mail("spam", 99)).value > before + 0.01  # an answered lesson counts


def test_reasons_do_not_wait_for_a_lesson(store):
    with Filter(store) as opened, ThreadPoolExecutor(1) as pool:
        opened.refresh()
        with opened._change():
            assert pool.submit(opened.reasons, mail("spam", 99)).result(10)


def test_a_long_optimisation_does_not_lock_the_store(store, monkeypatch):
    whole, locked = OnlineMachine.settle, []
    with Filter(store) as opened:

        def settle(self, seconds=None):
            locked.append((seconds, opened.lessons.sql.in_transaction))
            return seconds is None and whole(self)

        monkeypatch.setattr(OnlineMachine, "settle", settle)
        opened.learn_all((mail("ham", i) for i in range(600, 605)), "ham")
    assert (None, False) in locked
    assert (None, True) not in locked


# Lessons as a whole


def test_retraining_keeps_the_lessons_and_calibrates(store):
    with Filter(store) as opened:
        said = opened.classify(mail("spam", 99)).value
        kinds = kinds_of(opened)
        assert opened.retrain() == 20
        assert kinds_of(opened) == kinds
        assert opened.classify(mail("spam", 99)).value == pytest.approx(said, abs=5e-3)


def test_retraining_does_not_lock_the_store(store, monkeypatch):
    """A lesson of another process meanwhile repeats it."""
    whole, trainings = OnlineMachine.settle, []

    def settle(self, seconds=None):
        if seconds is None:
            trainings.append(len(self))
            if len(trainings) == 1:
                with Filter(store) as other:
                    assert other.learn(mail("ham", 500), "ham")
        return whole(self, seconds)

    monkeypatch.setattr(lesson_store, "LOCK_TIMEOUT", 0.2)
    with Filter(store) as opened:
        monkeypatch.setattr(OnlineMachine, "settle", settle)
        assert opened.retrain() == 21
        assert trainings == [20, 21]
        assert opened.lessons.counts() == {"spam": 10, "ham": 11}
        opened.lessons.check_file()


def test_a_report_after_all_of_one_kind(tmp_path):
    """Lessons of the first kind were not judged: they are judged out of fold."""
    with Filter(tmp_path, create=True) as opened:
        for kind in ("spam", "ham"):
            opened.learn_all((mail(kind, i) for i in range(10)), kind)
        assert filter_report(opened).results.n == 20


@pytest.mark.slow
def test_other_features_are_told_and_retraining_makes_them_anew(store):
    with Filter(store) as opened:
        with opened.lessons.writing():
            opened.lessons.set_meta("features", [3, 9])
        for ask in (opened.classify, lambda data: opened.learn(data, "ham")):
            refuses("textsvm mail retrain", ask, mail("ham", 500))
        opened.retrain()
        assert opened.learn(mail("ham", 500), "ham")


def test_other_features_without_texts_cannot_be_made_anew(tmp_path):
    with Filter(tmp_path, create=True, texts=False) as opened:
        teach(opened, 2)
        with opened.lessons.writing():
            opened.lessons.set_meta("features", [3, 9])
        refuses("does not hold the messages", opened.retrain)


@pytest.mark.parametrize("texts", [True, False])
def test_lessons_travel_as_lines(tmp_path, texts):
    with Filter(tmp_path / "a", create=True, texts=texts) as opened:
        teach(opened, 5)
        opened.learn(b"Subject: \xff\x00\n\n\x80\r\n" + bytes(range(256)), "spam")
        lines = [lesson_line(each) for each in opened.lessons.iterate(messages=True)]
        before = {each.digest: each for each in opened.lessons.iterate(messages=True)}
    assert all(("message" in json.loads(line)) == texts for line in lines)
    with Filter(tmp_path / "b", create=True) as opened:
        assert opened.add_lessons(parse_lessons(lines, "lines")) == 11
        assert opened.add_lessons(parse_lessons(lines, "lines")) == 0
        after = {each.digest: each for each in opened.lessons.iterate(messages=True)}
    assert after.keys() == before.keys()
    for name, one in before.items():
        other = after[name]
        assert (one.kind, one.learnt, one.subject, one.sender) == (
            other.kind, other.learnt, other.subject, other.sender
        )  # fmt: skip
        assert one.message == other.message
        assert (one.keys == other.keys).all()
        assert (one.values == other.values).all()


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        "{}",
        '{"digest": "x", "kind": "ham", "learnt": 1, "message": ""}',
        '{"digest": "0123456789abcdef", "kind": "Eggs!", "learnt": 1, "message": ""}',
        '{"digest": "0123456789abcdef", "kind": "ham", "learnt": NaN, "message": ""}',
        '{"digest": "0123456789abcdef", "kind": "ham", "learnt": 1, "message": "\u20ac"}',
        '{"digest": "0123456789abcdef", "kind": "ham", "learnt": 1, "keys": [2, 1], "values": [[1, 2]]}',
        '{"digest": "0123456789abcdef", "kind": "ham", "learnt": 1, "keys": [-1], "values": [[1, 1]]}',
        '{"digest": "0123456789abcdef", "kind": "ham", "learnt": 1, "keys": [1], "values": [[-1, 1]]}',
        '{"digest": "0123456789abcdef", "kind": "ham", "learnt": 1, "keys": ["a"], "values": [[1, 1]]}',
        '{"digest": "0123456789abcdef", "kind": "ham", "learnt": 1, "keys": {}, "values": [[1, 1]]}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_lesson_is_told(line):
    refuses(r"x, line 2 is no lesson", list, parse_lessons(["\n", line], "x"))


def test_a_report_shows_mistakes_with_their_words(store):
    with Filter(store) as opened:
        for i in range(800, 803):
            opened.learn(mail("spam", i), "ham")
        report = filter_report(opened, mistakes=2)
        assert len(report.mistakes) == 2
        mistake = report.mistakes[0]
        assert (mistake.truth, mistake.predicted) == ("ham", "spam")
        assert len(mistake.explanation.text) == len(mistake.explanation.symbols)
        assert report.results.n == opened.status().recent["n"]
    with Filter(store / "new", create=True) as opened, pytest.raises(InputError, match="nothing to report"):
        filter_report(opened)


def test_messages_lie_in_files_mboxes_maildirs_and_folders(tmp_path):
    one, two = mail("ham", 1), mail("spam", 2)
    quoted = one + b"\n>From here on\n"
    from_line = b"From me@example.org Mon Jan  1 00:00:00 2024\n"
    (tmp_path / "one").write_bytes(one)
    (tmp_path / "mbox").write_bytes(from_line + quoted + b"\n" + from_line + two)
    (tmp_path / "none").touch()
    maildir = tmp_path / "maildir"
    for folder in ("cur", "new", "tmp", ".Other/cur"):
        (maildir / folder).mkdir(parents=True)
        (maildir / folder / "1:2,S").write_bytes(one)
    mh = tmp_path / "mh" / "deeper"
    mh.mkdir(parents=True)
    (mh / "1").write_bytes(two)
    (mh / ".mh_sequences").write_text("unseen: 1")
    (mh / ".draft").write_bytes(one)
    found = {
        name: [data for _, data in raw_messages(tmp_path / name, [])]
        for name in ("one", "mbox", "none", "maildir", "mh")
    }
    assert found["one"] == [one]
    assert [data.partition(b"\n")[2].rstrip() for data in found["mbox"]] == [
        quoted.replace(b">From", b"From").rstrip(), two.rstrip()
    ]  # fmt: skip
    assert found["none"] == [b""]
    assert found["maildir"] == [one, one]
    assert found["mh"] == [two]
    refuses("cannot read", list, raw_messages(tmp_path / "absent", []))


def test_what_the_user_may_not_read_is_said_with_advice():
    def learn():
        skipped = []
        messages = [name for name, _ in raw_messages(folder, skipped)]
        raise InputError(" ".join([*messages, *(sentence.replace(str(folder), "") for sentence in skipped)]))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for path in ("a", "b/c", "d"):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(mail("ham", 1))
        (folder / "a").chmod(0)
        (folder / "b").chmod(0)
        advice = "Permission denied; run the command as its owner or as root"
        assert as_nobody(learn) == f"{folder / 'd'} cannot read /a: {advice} cannot read /b: {advice}"
        (folder / "b").chmod(0o755)
