"""The page of programs that textsvm works with, from the results of tests with them.

    pytest -m "slow or not slow" --junitxml tests.xml && python docs/tools/works_with.py tests.xml

writes docs/works_with.md. A row needs a test that ran, and none that failed; of other programs the page keeps
its rows. `.ci/nightly` does this.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

PAGE = Path(__file__).resolve().parents[1] / "works_with.md"
HEAD = """# Programs that textsvm works with

Tests run these programs as the pages say; their job writes this table.

| program | version | what ran |
|---|---|---|
"""


class Program(NamedTuple):
    """A program, how to ask for its version, what its tests do, and their names: FILE::PREFIX."""

    name: str
    command: str  #: Shell command whose output holds the version, or a package of Python
    what: str
    tests: tuple[str, ...]


SPAMD = "mail.md#spamc-exim-replacing-spamassassins-spamd"
PROGRAMS = [Program(*row) for row in (
    ("Postfix", "/usr/sbin/postconf -d -h mail_version", "[milter, SMTP filter, script](mail.md#postfix)",
     ("test_mail_mtas::test_a_new_machine", "test_mail_mtas::test_postfix", "test_mail_mtas::test_outgoing")),
    ("Exim", "exim4 -bV", f"[spamd's protocol]({SPAMD})", ("test_mail_mtas::test_exim",)),
    ("Dovecot", "dovecot --version", "[LMTP, Sieve, learning by moving](mail.md#dovecot-sieve)",
     ("test_mail_mtas::test_a_new_machine_learns", "test_mail_mtas::test_a_new_machine_filters[by_dovecot]",
      "test_mail_mtas::test_a_new_machine_filters[by_lmtp]")),
    ("procmail", "procmail -v 2>&1", "[delivery](mail.md#procmail)",
     ("test_mail_recipes::test_procmail", "test_mail_mtas::test_a_new_machine_filters[by_procmail]")),
    ("maildrop", "maildrop -v", "[delivery](mail.md#maildrop)",
     ("test_mail_recipes::test_maildrop", "test_mail_mtas::test_a_new_machine_filters[by_maildrop]")),
    ("swaks", "swaks --version", "mail to these", ("test_mail_mtas::test_a_new_machine",)),
    ("mutt", "mutt -v", "[keys](mail.md#mutt)", ("test_mail_recipes::test_mutt",)),
    ("spamc", "spamc -V", f"[all requests]({SPAMD})", ("test_mail_recipes::test_spamc",)),
    ("systemd", "systemd-analyze --version", "units, activation of sockets, exposure",
     ("test_mail_recipes::test_systemd", "test_mail_mtas::test_the_unit", "test_serve::test_the_unit")),
    ("Prometheus", "promtool --version 2>&1", "[metrics, alerts](serve.md#metrics)",
     ("test_serve::test_metrics_pass_promtool", "test_serve::test_alerts")),
    ("prometheus-client", "", "[metrics](serve.md#metrics)", ("test_serve::test_metrics_are_read",)),
    ("openapi-spec-validator", "", "`/openapi.json`", ("test_serve::test_the_document",)),
    ("schemathesis", "", "`/openapi.json`", ("test_serve::test_schemathesis",)),
    ("curl", "curl --version", "HTTP/2 offered", ("test_serve::test_curl",)),
    ("onnxruntime", "", "[ONNX](tasks/export.md#onnx)", ("test_export_onnx::test_batches",)),
    ("onnxruntime-node", "npm view onnxruntime-node version", "[ONNX](tasks/export.md#onnx)",
     ("test_export_onnx::test_the_lines_of_the_page_in_node[onnxruntime-node",)),
    ("onnxruntime-web", "npm view onnxruntime-web version", "[ONNX](tasks/export.md#onnx)",
     ("test_export_onnx::test_the_lines_of_the_page_in_node[onnxruntime-web",)),
    ("Node", "node --version", "[WebAssembly](tasks/export.md#javascript-and-webassembly)",
     ("test_export::test_words_of_any_script_in_javascript",)),
    ("scikit-learn", "", "checks of estimators, ensembles, displays", ("test_sklearn::",)),
    ("skops", "", "saved estimators", ("test_sklearn::test_skops",)),
    ("mlflow-skinny", "", "saved estimators", ("test_sklearn::test_mlflow",)),
    ("nbclient", "", "bars of progress", ("test_runtime_parameters::test_progress_in_a_notebook",)),
)]  # fmt: skip


def version_of(program: Program) -> str:
    """Version of a program; empty if it is missing."""
    if not program.command:
        try:
            return version(program.name)
        except PackageNotFoundError:
            return ""
    shown = subprocess.run(program.command, shell=True, capture_output=True, text=True).stdout
    found = re.search(r"\d+(\.\d+)+[a-z]*|\d{3,}", shown)
    return found[0] if found else ""


def results(report: Path) -> dict[str, str]:
    """Outcome of each test, "FILE::NAME", in a report of pytest: passed, skipped or failed."""
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes[f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"] = outcome
    return outcomes


def table(outcomes: dict[str, str], rows: dict[str, str]) -> dict[str, str]:
    """Rows by program; rows of programs whose tests did not run stay."""
    lines = {}
    for program in PROGRAMS:
        ran = {outcome for name, outcome in outcomes.items() if name.startswith(program.tests)} - {"skipped"}
        if ran == {"passed"}:
            lines[program.name] = f"| {program.name} | {version_of(program)} | {program.what} |"
        elif not ran and program.name in rows:
            lines[program.name] = rows[program.name]
    return lines


def main(reports: list[str]) -> None:
    outcomes = {name: outcome for report in reports for name, outcome in results(Path(report)).items()}
    old = PAGE.read_text("utf-8") if PAGE.exists() else ""
    rows = {match[1]: match[0] for match in re.finditer(r"^\| ([^|]+) \|.*\|$", old, re.MULTILINE)}
    PAGE.write_text(
        HEAD + "".join(f"{row}\n" for row in table(outcomes, rows).values()), "utf-8", newline="\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
