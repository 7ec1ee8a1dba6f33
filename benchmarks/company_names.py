"""All pairs of company names with a cosine of 0.8, beside string_grouper.

The names are drawn: one to three of 60,000 pronounceable words, whose frequency falls with their rank, common
words of companies and a legal form; a tenth are copies with an edit, another form or an abbreviation. The
programs run in processes of their own, ours by `textsvm.neighbours`, and their pairs are compared.
string_grouper removes , - . / and spaces, ignores case, and weights trigrams by the same idf,
so the cosines are equal up to rounding.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import BenchmarkReport, benchmark, option
from textsvm.errors import InputError

LEAST = 0.8
#: Most pairs of a name that string_grouper reports; no name here has as many.
MOST = 1000
COMMON = """CAPITAL PARTNERS FUND TRUST GROUP ENERGY FINANCIAL HOLDINGS INTERNATIONAL INVESTORS MANAGEMENT
INVESTMENT PROPERTIES RESOURCES TECHNOLOGIES SYSTEMS BANK BANCORP REAL ESTATE EQUITY GROWTH VENTURES GLOBAL
AMERICAN NATIONAL FIRST UNITED PACIFIC INDUSTRIES SERVICES SOLUTIONS PHARMACEUTICALS THERAPEUTICS INSURANCE
LIFE HEALTH CARE OIL GAS MINING GOLD COMMUNICATIONS MEDIA NETWORKS SOFTWARE INCOME MUNICIPAL CREDIT
ACQUISITION ASSET BACKED MORTGAGE LOAN SECURITIES FUNDING LEASING AUTO RECEIVABLES SERIES MASTER OPPORTUNITIES
STRATEGIC VALUE SELECT PREMIER SUMMIT"""
FORMS = "INC INC INC INC CORP CORP CORP LLC LLC LLC LP LP LTD CO TRUST /DE/ /NY/ PLC SA NV"
ONSETS = "B BR C CH CL D DR F G GR H J K L M MC N P PH PR QU R S SH ST T TH TR V W WH Z"
VOWELS, CODAS = "A E I O U AI EA EE OU IA", "N R L S T M ND RT CK X NG LL SS TH D"
WORDS = 60_000
#: Program of a process: reads names, writes the pairs, prints seconds and the peak of memory.
PROGRAM = """
import json, re, resource, sys, time
import numpy as np
names = open(sys.argv[1]).read().split("\\n")
BODY
np.savez(sys.argv[2], rows=rows, columns=columns, values=values)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak}))
"""
OURS = """
from textsvm import Spectrum, neighbours
neighbours(names[:3000], kernel=Spectrum(3, idf=True), at_least=LEAST, device="cpu")
clock, processor = time.perf_counter(), time.process_time()
texts = [re.sub(r"[,-./]|\\\\s", "", name) for name in names]
pairs = neighbours(texts, kernel=Spectrum(3, idf=True), at_least=LEAST, device="cpu")
wall, cpu = time.perf_counter() - clock, time.process_time() - processor
rows, columns, values = pairs.rows, pairs.columns, pairs.values
"""
THEIRS = """
import pandas
from string_grouper import StringGrouper
clock, processor = time.perf_counter(), time.process_time()
grouper = StringGrouper(
    pandas.Series(names), min_similarity=LEAST, max_n_matches=MOST, number_of_processes=2,
    include_zeroes=False,
).fit()
matches = grouper._matches_list
wall, cpu = time.perf_counter() - clock, time.process_time() - processor
upper = matches.master_side < matches.dupe_side
rows, columns, values = (matches[name][upper] for name in ("master_side", "dupe_side", "similarity"))
"""


def company_names(n: int) -> list[str]:
    """n names of companies."""
    rng = np.random.default_rng(0)
    common_words, forms = COMMON.split(), FORMS.split()

    def draw(items: list[str], size: int) -> list[str]:
        return [items[i] for i in rng.integers(0, len(items), size).tolist()]

    syllables = rng.integers(1, 4, WORDS).tolist()
    total = sum(syllables)
    parts = iter(
        map(
            "".join,
            zip(
                *(
                    draw(items, total)
                    for items in (ONSETS.split(), VOWELS.split(), [*CODAS.split(), *[""] * 14])
                ),
                strict=True,
            ),
        )
    )
    words = ["".join(next(parts) for _ in range(size)) for size in syllables]
    own = n - n // 10
    # The probability of a word is in proportion to 1 / rank.
    ranks = np.minimum(WORDS ** rng.random((own, 3)), WORDS - 1).astype(int).tolist()
    common = (
        np.minimum(len(common_words) ** rng.random((own, 2)), len(common_words)).astype(int) - 1
    ).tolist()
    kinds, numbers = rng.integers(0, 6, own).tolist(), rng.integers(1, 40, own).tolist()
    names = []
    for (a, b, c), (d, e), kind, number, form in zip(
        ranks, common, kinds, numbers, draw(forms, own), strict=True
    ):
        name = (
            [words[a], common_words[d]],
            [words[a], words[b], common_words[d]],
            [words[a], common_words[d], common_words[e]],
            [words[a], words[b]],
            [words[a], words[b], words[c]],
            [words[a], common_words[d], common_words[e], str(number)],
        )[kind]
        names.append(" ".join([*name, form]))
    names += [_changed(names[i], forms, rng) for i in rng.integers(0, own, n // 10).tolist()]
    return [names[i] for i in rng.permutation(n)]


def _changed(name: str, forms: list[str], rng: np.random.Generator) -> str:
    place = int(rng.integers(1, len(name)))
    return (
        name[:place] + name[place + 1 :],
        name[:place] + "E" + name[place:],
        name.rsplit(" ", 1)[0],
        f"{name} {forms[rng.integers(len(forms))]}",
        name.replace("INTERNATIONAL", "INTL").replace("CORP", "CORPORATION"),
    )[rng.integers(5)]


def run(python: str, body: str, names: Path, output: Path) -> dict[str, Any]:
    """Seconds, peak in MB, and the pairs as a set of numbers with their values."""
    body = body.replace("LEAST", str(LEAST)).replace("MOST", str(MOST)).replace("\\\\", "\\")
    command = [python, "-c", PROGRAM.replace("BODY", body), str(names), str(output)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    with np.load(output) as arrays:
        keys = arrays["rows"].astype(np.int64) << 32 | arrays["columns"].astype(np.int64)
        order = np.argsort(keys)
        return json.loads(printed) | {"keys": keys[order], "values": arrays["values"][order]}


def compared(n: int, python: str) -> dict[str, Any]:
    """One row."""
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "names"
        names.write_text("\n".join(company_names(n)), encoding="utf-8", newline="\n")
        ours, theirs = (
            run(program, body, names, Path(folder) / f"{number}.npz")
            for number, (program, body) in enumerate([(sys.executable, OURS), (python, THEIRS)])
        )
    both, at, there = np.intersect1d(ours["keys"], theirs["keys"], return_indices=True)
    difference = np.abs(ours["values"][at] - theirs["values"][there])
    alone = np.concatenate([np.delete(ours["values"], at), np.delete(theirs["values"], there)])
    return {
        "names": n, "pairs": len(ours["keys"]), "string_grouper's pairs": len(theirs["keys"]),
        "in both": len(both), "largest difference of values": float(difference.max(initial=0)),
        "largest value in one only": float(alone.max(initial=0)),
        "ours, s": ours["wall"], "string_grouper, s": theirs["wall"], "ours, processor s": ours["cpu"],
        "string_grouper, processor s": theirs["cpu"], "times faster": theirs["wall"] / ours["wall"],
        "ours, peak MB": ours["peak"], "string_grouper, peak MB": theirs["peak"],
    }  # fmt: skip


@benchmark(
    "company_names",
    "Similar company names, beside string_grouper",
    "reports/company_names",
    option("--n", type=int, help="number of names (default: 663,000)"),
    option("--python", help="interpreter with string_grouper", recorded=False),
    device="cpu",
    quick="use few names",
)
def main(options: argparse.Namespace, report: BenchmarkReport) -> None:
    """Find all pairs, and compare them."""
    if options.python is None:
        raise InputError("give the interpreter of an environment with string_grouper (--python)")
    sizes = [options.n] if options.n else [5000] if options.quick else [100_000, 663_000]
    for n in sizes:
        report.row(f"{n}", compared, n, options.python)
