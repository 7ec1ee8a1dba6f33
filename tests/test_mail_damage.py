"""A damaged mail store: noticed by whatever reads it, and repaired by export and import."""

import json
import sqlite3
from contextlib import closing

import mail_damage
import pytest
from mail_damage import PROBES, decisions, restore, same, status
from mails import mail, teach
from refusals import refuses
from test_mail_cli import call

from textsvm.apps.mail.filter import Filter, lesson_line, parse_lessons
from textsvm.apps.mail.lessons import FILE, Lessons
from textsvm.apps.mail.report import filter_report


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """The files of a store of eight mails of each kind and a long one."""
    return mail_damage.build(tmp_path_factory.mktemp("taught") / "store")


@pytest.fixture
def store(taught, tmp_path, monkeypatch):
    """A folder with copies of them, which TEXTSVM_MAIL names."""
    folder = tmp_path / "store"
    folder.mkdir(0o700)
    restore(folder, taught)
    monkeypatch.setenv("TEXTSVM_MAIL", str(folder))
    return folder


def change(folder, script):
    with sqlite3.connect(folder / FILE) as connection:
        connection.executescript(script)


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_flipped_bits_are_noticed_or_without_effect(tmp_path, times):
    counts, silent = mail_damage.attack(tmp_path, times)
    assert silent == []
    assert min(counts["noticed"], counts["without effect"]) > times / 20


#: SQL, and how many of the 17 lessons `export` then writes.
LESSONS = {
    "update lessons set alpha = 'x' where id = 3": 17,
    "update lessons set alpha = alpha + 1e-9 where id = 2": 17,
    "update lessons set kind = 'ham' where id = 5": 16,
    "update lessons set kind = case kind when 'ham' then 'spam' else 'ham' end": 0,
    "update lessons set subject = x'ff' where id = 5": 16,
    "update lessons set seals = x''": 0,
    "update lessons set seals = 'x' where id = 4": 16,
    "update lessons set id = 100 - id; update bodies set id = 100 - id": 17,
    "delete from lessons where id in (2, 9); delete from bodies where id in (2, 9)": 15,
    "delete from bodies where id = 9": 16,
    "update bodies set keys = (select keys from bodies where id = 2) where id = 1": 17,
    "update bodies set weights = x'0000c07f' where id = 1": 17,
    "update bodies set keys = x'0102' where id = 3": 17,
    "update lessons set id = 50 where id = 1; update lessons set id = 1 where id = 2": 15,
}
META = {
    "update meta set value = '[NaN, 0]' where name = 'calibration'",
    "update meta set value = '1000' where name = 'generation'",
    "update meta set value = '{' where name = 'features'",
    "update meta set name = 'y' where name = 'calibration'",
    "delete from meta",
}


def noticed(folder, of_features=False):
    """Whatever reads the lessons fails with a sentence that says how to repair them (status: of the rows)."""
    (folder / "weights").unlink(missing_ok=True)
    works = [
        decisions,
        mail_damage.learnt,
        mail_damage.checked,
        lambda folder: filter_report(Filter(folder)),
        lambda folder: Filter(folder).retrain(),
    ]
    if not of_features:
        works.append(status)
    for work in works:
        refuses(r"is damaged.*`textsvm mail export FILE`", work, folder)


def repaired(folder, intact):
    """Export the intact lessons, and learn them into a new store."""
    new = folder.parent / "new"
    exported = mail_damage.exported(folder)
    assert len(exported) == 17
    assert exported.count(None) == 17 - intact
    with closing(Lessons(folder, damaged=True)) as lessons, Filter(new, create=True) as opened:
        lines = [lesson_line(each) for each in lessons.intact() if each]
        assert opened.add_lessons(parse_lessons(lines, "lines")) == intact
    return new


@pytest.mark.parametrize("sql", ["update lessons set alpha = 1e30", "delete from meta"])
def test_commands_fail_with_a_sentence_and_export_and_import_repair(store, sql):
    expected = decisions(store)
    change(store, f"{sql}; update lessons set kind = 'ham' where id = 5")
    (store / "weights").unlink()
    for command in (["classify"], ["status"], ["learn", "--as", "ham"]):
        result = call(*command, stdin=mail("ham", 200))
        assert result.exit_code == 3, command
        assert "is damaged" in result.stderr
        assert "`textsvm mail export FILE`" in result.stderr
        assert result.stderr.count("\n") == 1
        assert "report this" not in result.stderr
    file = store.parent / "lessons.jsonl"
    result = call("export", file, "--quiet")
    assert (result.exit_code, result.stderr) == (0, "16 lessons written; 1 damaged lessons were left out\n")
    assert "16 messages learnt" in call("import", file, "--store", store.parent / "new").stderr
    assert [kind for kind, _, _ in decisions(store.parent / "new")] == [kind for kind, _, _ in expected]


@pytest.mark.parametrize("sql", LESSONS)
def test_changed_rows_are_noticed_and_the_others_exported(store, sql):
    expected = decisions(store)
    change(store, f"pragma foreign_keys = off; {sql}")
    assert same(decisions(store), expected)  # the weights are those of the intact lessons
    noticed(store, of_features="bodies" in sql and "lessons" not in sql)
    new = repaired(store, LESSONS[sql])
    if LESSONS[sql] == 17:
        values = [each[2] for each in decisions(new)]
        assert values == pytest.approx([each[2] for each in expected], abs=5e-3)


@pytest.mark.parametrize("sql", sorted(META))
def test_changed_settings_are_noticed_and_all_lessons_exported(store, sql):
    change(store, sql)
    refuses("table meta", decisions, store)
    noticed(store)
    repaired(store, 17)


def test_damaged_pages_leave_other_lessons_to_export(store, taught):
    """All but the roots of the two tables, and the first page."""
    content, counts = taught[FILE], []
    for at in range(4096, len(content), 4096):
        restore(store, {FILE: content[:at] + b"\xff" * 4096 + content[at + 4096 :]})
        result = mail_damage.exported(store)
        assert len(result) == 17
        counts.append(17 - result.count(None))
    assert sorted(counts)[2] >= 12
    assert sum(counts) > 11 * len(counts)


def test_rows_without_an_id_are_counted_as_lost(store):
    bodies = "create table bodies (id, keys blob not null, weights blob not null, message blob)"
    change(
        store, f"pragma writable_schema = on; update sqlite_master set sql = '{bodies}' where name = 'bodies'"
    )
    change(store, "insert into bodies values (null, x'', x'', null)")
    with closing(Lessons(store)) as lessons:
        assert list(lessons.intact()) == [None] * 17


def test_the_advice_is_not_export_if_export_fails(store, taught):
    file, content = store.parent / "lessons.jsonl", bytearray(taught[FILE])
    pages = [content[:4096] + b"\xff" * (len(content) - 4096)]
    content[3587] ^= 128  # of the names of the tables
    for damaged in (*pages, content):
        restore(store, {FILE: bytes(damaged)})
        result = call("export", file)
        assert (result.exit_code, file.exists()) == (3, False), result.stderr
        assert "is damaged" in result.stderr
        assert "restore a backup" in result.stderr
        assert "mail export" not in result.stderr


def test_a_copy_that_is_put_back_is_not_decided_with_the_weights_of_another(store, taught):
    """Two stores of one name and one generation, with other lessons."""
    with Filter(store) as opened:
        for i in range(300, 303):
            opened.learn(mail("ham", i), "spam")
        later = opened.lessons.generation
    weights = (store / "weights").read_bytes()
    restore(store, {FILE: taught[FILE], "weights": weights})
    with Filter(store) as opened:
        for i in range(300, 303):
            opened.learn(mail("ham", i), "ham")
        assert opened.lessons.generation == later
        expected = [opened.model().decide(*probe).value for probe in PROBES]
    (store / "weights").write_bytes(weights)
    assert [each[2] for each in decisions(store)] == pytest.approx(expected, abs=1e-5)


def test_a_running_filter_notices_that_a_copy_is_put_back(store, tmp_path):
    with Filter(store) as opened, sqlite3.connect(store / FILE) as present, sqlite3.connect(
        tmp_path / "copy"
    ) as copy:  # fmt: skip
        present.backup(copy)
        opened.learn(mail("spam", 300), "spam")
        state = opened.lessons.state
        copy.backup(present)
        with Filter(store) as other:
            other.learn(mail("spam", 301), "spam")
            assert other.lessons.generation == state[0]
            assert other.lessons.state != state
            expected = [other.model().decide(*probe).value for probe in PROBES]
        assert [opened.model().decide(*probe).value for probe in PROBES] == pytest.approx(expected, abs=1e-5)
        assert opened.learn(mail("spam", 300), "spam")


def test_a_lesson_hashes_the_rows_that_it_changes(tmp_path, set_values):
    with Filter(tmp_path, create=True) as opened:
        teach(opened, 40)
        set_values(Lessons, check_rows=lambda *_, **__: 1 / 0, iterate=lambda *_, **__: 1 / 0)
        assert opened.learn(mail("ham", 500), "ham")
        assert opened.unlearn(mail("ham", 3))
        with pytest.raises(ZeroDivisionError):
            opened.status()


def test_exported_lessons_without_messages_are_counted(store):
    change(store, "update bodies set message = x'00' where id = 3")
    result = call("export", store.parent / "lessons.jsonl")
    assert "17 lessons written; 1 of them as features, without their messages" in result.stderr
    lines = [json.loads(line) for line in (store.parent / "lessons.jsonl").read_text().splitlines()]
    assert ["message" in line for line in lines].count(False) == 1
