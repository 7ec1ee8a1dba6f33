"""The page of programs is what the jobs write."""

import re

from command import ROOT

from docs.tools.works_with import PAGE, PROGRAMS, results, table

REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_mail_recipes" name="test_procmail"/>
<testcase classname="tests.test_mail_recipes" name="test_maildrop"><skipped/></testcase>
<testcase classname="tests.test_mail_recipes" name="test_mutt"><skipped/></testcase>
<testcase classname="tests.test_mail_recipes" name="test_spamc"/>
<testcase classname="tests.test_serve" name="test_alerts_of_the_page_fire_and_end[a]"/>
<testcase classname="tests.test_serve" name="test_alerts_of_the_page_fire_and_end[b]"><failure/></testcase>
</testsuite></testsuites>"""


def test_rows_need_a_test_that_ran_and_none_that_failed(tmp_path):
    (tmp_path / "tests.xml").write_text(REPORT)
    old = {"mutt": "| mutt | 2.0 | kept |", "Prometheus": "| Prometheus | 1.0 | old |"}
    rows = table(results(tmp_path / "tests.xml"), old)
    assert [*rows] == ["procmail", "mutt", "spamc"]
    assert rows["mutt"] == old["mutt"]
    assert rows["procmail"].endswith("| [delivery](mail.md#procmail) |")


def test_names_of_tests_exist():
    for program in PROGRAMS:
        for name in program.tests:
            file, _, prefix = name.partition("::")
            source = (ROOT / "tests" / f"{file}.py").read_text(encoding="utf-8")
            assert f"def {prefix.partition('[')[0]}" in source or not prefix, name


def test_the_page_has_versions():
    rows = re.findall(r"^\| ([^|]+) \| ([^|]*) \| [^|]+ \|$", PAGE.read_text("utf-8"), re.MULTILINE)[1:]
    assert {name for name, _ in rows} <= {program.name for program in PROGRAMS}
    assert len(rows) > 10
    assert all(re.match(r"\d", version) for _, version in rows)
