"""Print the test files whose slow tests a change concerns, one per line.

    python .ci/concerned.py [BASE]

A change is the difference between BASE and HEAD. The default of BASE is the newest commit at least four hours
older than HEAD, so that a series of commits counts as one change.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Path of a changed file (regular expression) -> patterns of test files whose slow tests it concerns.
CONCERNS = {
    r"kernels_cu/|textsvm/runtime/device": ["test_kernels_cu"],
    r"benchmarks/": ["test_harness", "test_benchmarks", "test_panel"],
    r"textsvm/runtime/(workers|parallel)": [
        "test_workers",
        "test_threads",
        "test_processes",
        "test_determinism",
    ],
    r"textsvm/runtime/": ["test_gram_memory", "test_runtime_memory", "test_faults", "test_platforms"],
    r"textsvm/(text|linalg|kernels)/": [
        "test_kernels",
        "test_mers",
        "test_gapped",
        "test_combined",
        "test_vectors",
    ],
    r"textsvm/(gram|solvers)/": [
        "test_store",
        "test_gram_plan",
        "test_smo",
        "test_newton",
        "test_gram*",
        "test_training",
    ],
    r"textsvm/(machines|estimators|model|sources)/": ["test_sklearn", "test_multilabel", "test_fuzz_models"],
    r"textsvm/(selection|choice)/": ["test_tuning", "test_selection", "test_doubts", "test_choice"],
    r"textsvm/readers/": ["test_fuzz_readers", "test_readers_*"],
    r"textsvm/apps/mail/": ["test_mail_*"],
    r"textsvm/apps/export/": ["test_export*", "test_apps"],
    r"textsvm/apps/": ["test_apps"],
    r"textsvm/apps/(serve|label)/": ["test_serve", "test_label*"],
    r"textsvm/cli/": ["test_cli*", "test_output", "test_threats", "test_faults"],
    r"textsvm/(evaluation|reporting)/": [
        "test_metrics",
        "test_report*",
        "test_hostile_reports",
        "test_mutations",
    ],
    r"README\.md|docs/|examples/": ["test_readme", "test_pages", "test_site"],
    r"fuzz/": ["test_fuzz_*"],
}


def git(*arguments: str) -> str:
    """Return the output of a git command."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def default_base() -> str:
    """Return the newest commit at least four hours older than HEAD, or the first commit."""
    newest = datetime.fromisoformat(git("log", "-1", "--format=%cI").strip())
    before = (newest - timedelta(hours=4)).isoformat()
    return git("rev-list", "-1", f"--before={before}", "HEAD").strip() or git("rev-list", "HEAD").split()[-1]


def concerned(changed: list[str]) -> list[str]:
    """Return the test files whose slow tests the changed files concern."""
    patterns = [
        p for concern, tests in CONCERNS.items() for p in tests if any(re.match(concern, c) for c in changed)
    ]
    files = {str(path.relative_to(ROOT)) for p in patterns for path in (ROOT / "tests").glob(f"{p}.py")}
    return sorted(
        files
        | {path for path in changed if re.fullmatch(r"tests/test_\w+\.py", path) and (ROOT / path).is_file()}
    )


if __name__ == "__main__":
    base = sys.argv[1] if len(sys.argv) > 1 else default_base()
    files = concerned(git("diff", "--name-only", base, "HEAD").split())
    # .ci/run has no time for all slow tests if a change concerns everything: begin elsewhere at each commit.
    start = int(git("rev-parse", "HEAD"), 16) % max(len(files), 1)
    for file in files[start:] + files[:start]:
        print(file)
