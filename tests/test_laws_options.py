"""Every option of every command does something: two values, or with and without it, give different results.

`ROWS` has for each option the corpus, the other arguments, and both values; `OWN` has those of single
commands, and `ELSEWHERE` the test files of options of servers, devices, memory and time, whose effect is no
result, and of files that are written. An option without a row fails. What a command repeats (its reading, its
kernel) is no result: figures, predictions and files are, and of a written model its coefficients.
"""

import csv
import io
import json
import random
import re
import shlex
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from command import run
from loading import load
from test_laws_training import imbalanced
from typer.main import get_command

from textsvm.cli import app_of
from textsvm.readers import sample

TESTS = Path(__file__).resolve().parent
#: Keys of JSON that repeat what was asked.
REPEATED = {
    *["seconds", "reading", "kernel", "kernel_spelled", "best_kernel_spelled", "C", "device", "corpus"],
    *["source", "output", "model", "file", "kernel_matrix", "bytes", "loss", "best_params", "params"],
    *["digest", "info", "how", "prediction"],
}
READ = "--text text --label label"
FAST = "--kernel spectrum:3"
#: The arguments of each command, without corpus and reading.
BASES = {
    "corpus": "corpus {corpus} --json",
    "train": "train {corpus} -o out.textsvm",
    "evaluate": "evaluate {model} {corpus} --json",
    "predict": "predict {model} {corpus}",
    "explain": "explain {model} {corpus} --json",
    "update": "update {model} {corpus} -o out.textsvm --json",
    "cv": "cv {corpus} --folds 3 --json",
    "tune": "tune {corpus} --folds 3 --json",
    "doubts": "doubts {corpus}",
    "compare": "compare {corpus} --cv 2 --json",
    "map": "map {corpus} --json -o out.html",
    "export": "export {model} -o out.html",
    "devices": "devices",
    "model": "model {model}",
    "label": "label {corpus} --export out.csv",
}
#: Option -> corpus, further arguments, first and second value.
ROWS = {
    "--format": ("plain.txt", "", "--format plain", "--format lines"),
    "--text": ("t.csv", "--label label", "--text text", "--text other"),
    "--label": ("t.csv", "--text text", "--label label", "--label label2"),
    "--id": ("t.csv", READ, "--id id", "--id writer"),
    "--skip-invalid": ("damaged.csv", READ, "", "--skip-invalid"),
    "--table": ("t.csv", "", "--table header=1 --text 2 --label 4", "--table header=3 --text 2 --label 4"),
    "--sheet": ("t.xlsx", READ, "--sheet first", "--sheet second"),
    "--encoding": ("accents.csv", READ, "--encoding utf-8", "--encoding cp1252"),
    "--level": ("tree", "", "--level 1", "--level 2"),
    "--annotators": ("prodigy.jsonl", "", "--annotators majority", "--annotators all"),
    "--positive": ("t.csv", "--text text --label label2", "--positive a", "--positive b"),
    "--negative": ("t.csv", "--text text --label label2 --positive a", "--negative b", "--negative c"),
    "--labels": ("vectors.npy with v.textsvm", "--kernel linear", "--labels y.txt", "--labels y2.txt"),
    "--part": ("t.csv", READ, "", "--part train"),
    "--headers": ("mail", "", "", "--headers"),
    "--groups": ("t.csv", READ, "", "--groups writer"),
    "--chunk": ("long.csv", READ, "", "--chunk 100"),
    "--strip-common": ("common.csv", READ, "", "--strip-common"),
    "--regress": ("t.csv", "--text text", "--regress score", "--regress weight"),
    "--weights": ("t.csv", READ, "", "--weights weight"),
    "--multilabel": ("many.csv", READ, "", "--multilabel"),
    "--label-separator": ("many.csv", READ + " --multilabel", "--label-separator ;", "--label-separator ,"),
    "--corrections": ("t.csv", READ, "", "--corrections corrections.json"),
    "--numbers": ("t.csv", READ, "", "--numbers n1"),
    "--vectors": ("t.csv", READ, "", "--vectors vectors.npy"),
    "--kernel": ("t.csv", READ, "--kernel spectrum:2", "--kernel spectrum:4"),
    "--normalise": ("t.csv", READ + " --kernel spectrum:2", "--normalise none", "--normalise paper"),
    "--max-length": ("t.csv", READ, "--max-length 20", "--max-length 60"),
    "-C": ("t.csv", READ, "-C 0.01", "-C 10"),
    "--epsilon": ("t.csv", "--text text --regress score", "--epsilon 0.1", "--epsilon 2"),
    "--multiclass": ("t.csv", "--text text --label label2", "--multiclass ovr", "--multiclass ovo"),
    "--class-weight": ("rare.csv", READ + " -C 0.1", "", "--class-weight balanced"),
    "--scoring": ("rare.csv", READ + " -C 0.3", "", "--scoring f1_macro"),
    "--seed": ("t.csv", READ, "--seed 1", "--seed 2"),
    "--folds": ("t.csv", READ, "--folds 3", "--folds 4"),
    "--group-duplicates": ("copies.csv", READ, "", "--group-duplicates"),
    "--repeats": ("t.csv", READ, "--repeats 1", "--repeats 2"),
}
#: The same for options that other commands have in another meaning, or need other arguments.
OWN = {
    ("tune", "--kernel"): ("t.csv", READ, "--kernel spectrum --p 2", "--kernel gap --p 2"),
    ("tune", "--p"): ("t.csv", READ + " --kernel spectrum", "--p 2", "--p 4"),
    ("tune", "--weight"): (
        "t.csv",
        "--text text --label label2" + " --kernel spectrum",
        "--weight count",
        "--weight log",
    ),
    ("tune", "--idf"): ("t.csv", READ + " --kernel spectrum", "", "--idf"),
    ("tune", "--tokens"): (
        "t.csv",
        READ + " --kernel spectrum --p 1",
        "--tokens characters",
        "--tokens words",
    ),
    ("tune", "--gamma"): ("vectors.npy", "--labels y.txt --kernel gaussian", "--gamma 0.01", "--gamma 3"),
    ("tune", "--decay"): ("t.csv", READ + " --kernel gap --p 3", "--decay 0.1", "--decay 0.9"),
    ("tune", "--metric"): ("t.csv", READ, "--metric accuracy", "--metric macro_f1"),
    ("tune", "--nested"): ("t.csv", READ, "", "--nested 2"),
    ("tune", "-C"): ("t.csv", READ, "-C 0.01", "-C 0.01,10"),
    ("predict", "--top"): ("t.csv", "--text text", "--top 1", "--top 2"),
    ("predict", "--proba"): ("t.csv with c.textsvm", "--text text", "", "--proba"),
    ("predict", "--all-classes"): ("t.csv", "--text text --output-format csv", "", "--all-classes"),
    ("predict", "--output-format"): ("t.csv", "--text text", "--output-format csv", "--output-format tsv"),
    ("predict", "--unsure"): ("t.csv with c.textsvm", "", "--unsure 0.49,0.51", "--unsure 0.01,0.99"),
    ("explain", "--top"): ("", "", "--top 1", "--top 5"),
    ("label", "--skip-invalid"): ("damaged.csv", READ, "", "--skip-invalid"),
    ("update", "--text"): ("new.csv", "--label label", "--text text", "--text other"),
    ("update", "--label"): ("new.csv", "--text text", "--label label", "--label label3"),
    ("update", "--table"): (
        "new.csv",
        "",
        "--table header=1 --text 2 --label 4",
        "--table header=3 --text 2 --label 4",
    ),
    ("predict", "--coverage"): ("t.csv with c.textsvm", "", "--coverage 0.5", "--coverage 0.99"),
    ("predict", "--none"): ("t.csv with c.textsvm", "", "--none 0.01", "--none 0.5"),
    ("predict", "--pieces"): ("long.csv with p.textsvm", "", "", "--pieces"),
    ("train", "--one-class"): ("t.csv", READ, "--one-class ham", "--one-class spam"),
    ("train", "--nu"): ("t.csv", READ + " --one-class ham", "--nu 0.1", "--nu 0.7"),
    ("train", "--calibrate"): ("t.csv", READ, "--calibrate sigmoid", "--calibrate isotonic"),
    ("train", "--tol"): ("t.csv", READ, "--tol 0.5", "--tol 0.00001"),
    ("train", "--seed"): ("t.csv", READ + " --calibrate sigmoid", "--seed 1", "--seed 2"),
    ("train", "--holdout"): ("t.csv", READ, "--holdout 0.2", "--holdout 0.5"),
    ("train", "--without-texts"): ("t.csv", READ, "", "--without-texts"),
    ("train", "--groups"): ("t.csv", READ + " --calibrate sigmoid", "", "--groups writer"),
    ("cv", "--id"): ("t.csv", READ + " --predictions out.jsonl", "--id id", "--id writer"),
    ("cv", "--predictions"): ("t.csv", READ, "", "--predictions out.jsonl"),
    ("tune", "--g"): ("t.csv", READ + " --kernel gapped", "--g 4", "--g 6"),
    ("tune", "--m"): ("t.csv", READ + " --kernel gapped --g 6", "--m 1", "--m 3"),
    ("tune", "--k"): ("dna.csv", "--kernel mismatch --m 1", "--k 3", "--k 5"),
    ("tune", "--canonical"): ("dna.csv", "--kernel mismatch --k 3 --m 1", "", "--canonical"),
    ("tune", "--minutes"): ("t.csv", READ + " --kernel spectrum --kernel gap", "", "--minutes 0.000001"),
    ("tune", "--output"): ("t.csv", READ, "", "--output out.textsvm"),
    ("tune", "--encoding"): ("accents.csv", READ, "--encoding utf-8", "--encoding utf-16"),
    ("evaluate", "--encoding"): ("accents.csv", READ, "--encoding utf-8", "--encoding utf-16"),
    ("evaluate", "--positive"): ("t.csv", READ, "--positive ham", "--positive spam"),
    ("evaluate", "--regress"): ("t.csv with r.textsvm", "--text text", "--regress score", "--regress weight"),
    ("evaluate", "--beside"): ("t.csv", READ, "", "--beside c.textsvm"),
    ("evaluate", "--report"): ("t.csv", READ, "", "--report out.html"),
    ("evaluate", "--figures"): ("t.csv", READ + " --report out.html", "", "--figures outside"),
    ("cv", "--report"): ("t.csv", READ, "", "--report out.html"),
    ("compare", "--report"): ("t.csv", READ, "", "--report out.html"),
    ("doubts", "--report"): ("t.csv", READ, "", "--report out.html"),
    ("doubts", "--output"): ("t.csv", READ, "", "--output out.csv"),
    ("predict", "--output"): ("t.csv", "--text text", "", "--output out.csv"),
    ("explain", "--output"): ("t.csv", "--text text", "", "--output out.html"),
    ("devices", "--json"): ("", "", "", "--json"),
    ("model", "--json"): ("", "", "", "--json"),
    ("export", "--json"): ("", "", "", "--json"),
    ("export", "--title"): ("", "", "--title One", "--title Two"),
    ("update", "--level"): ("newtree with f.textsvm", "", "--level 1", "--level 2"),
    ("update", "--labels"): ("vectors.npy with v.textsvm", "", "--labels y.txt", "--labels y2.txt"),
    ("explain", "--similar"): ("t.csv", "--text text", "--similar 1", "--similar 3"),
    ("compare", "--cv"): ("t.csv", READ, "--cv 2", "--cv 3"),
    ("doubts", "--at-least"): ("t.csv", READ, "--at-least 0", "--at-least 0.9"),
    ("evaluate", "--slice"): ("t.csv", READ, "", "--slice writer"),
    ("cv", "--learning-curve"): ("rare.csv", READ, "", "--learning-curve"),
}
#: Test files of options of servers, devices, memory and time, of files that are written and of what is said.
ELSEWHERE = {
    "": {
        "--device": "cli_devices",
        "--force": "output",
        "--quiet": "cli",
        "--help-all": "cli_console",
        "--memory": "cli_errors",
        "--store": "store",
        "--encoder": "encoders",
        "--workers": "workers",
    },
    "corpus": {"--json": "cli"},
    "train": {
        "--solver": "training",
        "--output": "cli_train",
        "--json": "cli_train",
        "--corrections": "doubts",
        "--id": "doubts",
    },
    "update": {"--json": "cli_update", "--corpus": "cli_update", "--output": "cli_update"},
    "evaluate": {"--mistakes": "reporting_sections", "--json": "cli"},
    "predict": {"--drift": "cli_predict"},
    "tune": {"--resume": "cli_tune", "--json": "cli_tune"},
    "cv": {"--json": "cli_cv", "--corrections": "doubts"},
    "compare": {"--holdout": "compare", "--json": "compare"},
    "explain": {"--json": "cli_explain"},
    "map": {"--output": "class_map", "--json": "class_map"},
    "verify": dict.fromkeys(["--text", "--label", "--level", "--groups", "--json"], "verification"),
    "devices": {"--compile": "cli_devices"},
    "model": {"--check": "cli_model"},
    "export": {"--to": "export_files", "--output": "export_files"},
    "label": {
        **dict.fromkeys(
            [
                *[
                    "--output",
                    "--labels",
                    "--multilabel",
                    "--strategy",
                    "--relevant",
                    "--import",
                    "--export",
                    "--format",
                ],
                *["--text", "--label", "--id", "--table", "--sheet", "--encoding"],
            ],
            "label_page",
        ),
        **dict.fromkeys(["--encoder", "--suggest"], "label_session"),
        **dict.fromkeys(["--shared", "--port"], "label_browser"),
    },
    "serve": dict.fromkeys(["--max-body", "--max-characters", "--timeout", "--port"], "laws_serve")
    | {"--host": "serve"},
    "mail classify": dict.fromkeys(["--passthrough", "--embed", "--verbose", "--json"], "mail_cli"),
    "mail learn": {"--as": "mail_cli", "--without-texts": "mail_cli", "--most": "mail_cli"},
    "mail unlearn": {"--category": "mail_categories"},
    "mail status": {"--check": "mail_cli", "--json": "mail_cli"},
    "mail import": {"--without-texts": "mail_cli"},
    "mail report": {"--mistakes": "laws_mail"},
    "mail serve": {
        "--socket": "mail_serve",
        "--tcp": "mail_serve",
        "--milter": "mail_mtas",
        "--smtp": "mail_serve",
        "--lmtp": "mail_servers",
        "--next": "mail_serve",
    },
}


@cache
def commands():
    """Options of each command: {command: options}."""

    def walk(command, name):
        for part, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{name} {part}".strip())
        if not hasattr(command, "commands"):
            params = [p for p in command.params if p.param_type_name == "option"]
            yield name, [max(p.opts, key=len) for p in params]

    return dict(walk(get_command(app_of()), ""))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The folder of corpora and models."""
    folder, draw = tmp_path_factory.mktemp("world"), random.Random(0)
    sent = list(csv.DictReader(io.StringIO(Path(sample("messages")).read_text(encoding="utf-8"))))

    def table(name, rows):
        with open(folder / name, "w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    rows = [
        {
            "id": f"d{i}",
            "text": row["text"],
            "other": row["text"][::-1][:30],
            "label": row["label"],
            "label2": "abc"[len(row["text"]) % 3],
            "score": len(row["text"]) % 9 + 0.5,
            "writer": f"w{i // 4}",
            "part": "train" if i % 4 else "test",
            "weight": 1 + i % 3,
            "n1": 50 * (row["label"] == "ham"),
        }
        for i, row in enumerate(sent[:48])
    ]
    new = [
        {"id": i, "text": row["text"], "other": row["text"][::-1], "label": row["label"], "label3": "ham"}
        for i, row in enumerate(sent[48:72])
    ]
    table("t.csv", rows)
    table("new.csv", new)
    pairs = [{"text": row["text"], "label": row["label"]} for row in rows]
    table("damaged.csv", [*pairs, {"text": "", "label": "ham"}])
    table("accents.csv", [row | {"text": "é" * (i % 3 + 1) + row["text"]} for i, row in enumerate(pairs)])
    book = openpyxl.Workbook()
    for number, (name, key) in enumerate((("first", "label"), ("second", "label2"))):
        sheet = book.active if not number else book.create_sheet()
        sheet.title = name
        for row in [["text", "label"], *([r["text"][number:], r[key]] for r in rows)]:
            sheet.append(row)
    book.save(folder / "t.xlsx")
    table("long.csv", [{"text": row["text"] * 3, "label": row["label"]} for row in pairs])
    table(
        "common.csv",
        [
            {
                "text": f"This text is of {row['label']}, all rights.\n{row['text']}\n{row['other']}",
                "label": row["label"],
            }
            for row in rows
        ],
    )
    table("many.csv", [{"text": row["text"], "label": f"{row['label']};x,{row['label2']}"} for row in rows])
    letters = ["".join(draw.choices("acgt", k=30)) + ("gattaca" if i % 2 else "ctgacc") for i in range(40)]
    table("dna.csv", [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(letters)])
    texts, classes = imbalanced(seed=1)
    table("rare.csv", [{"text": text, "label": "abc"[c]} for text, c in zip(texts, classes, strict=True)])
    table("copies.csv", pairs + [{"text": row["text"] + " x y", "label": row["label"]} for row in pairs])
    (folder / "plain.txt").write_text("".join(f"{row['label']}\t{row['text']}\n" for row in pairs))
    rng = np.random.default_rng(0)
    labels = np.array([row["label"] for row in rows])
    np.save(folder / "vectors.npy", rng.normal(size=(48, 3)) + (labels == "ham")[:, None])
    (folder / "y.txt").write_text("\n".join(labels))
    (folder / "y2.txt").write_text("\n".join(row["label2"] for row in rows))
    with (folder / "prodigy.jsonl").open("w") as stream:
        for i, row in enumerate(pairs):
            for k in range(3 if i < 6 else 1):
                label = "ham" if k == 2 else row["label"]
                about = {"answer": "accept", "_annotator_id": f"p{k}", "_input_hash": i}
                stream.write(json.dumps({"text": row["text"], "label": label, **about}) + "\n")
    for i, row in enumerate(rows):
        path = folder / "tree" / row["label2"] / row["label"] / f"{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(row["text"])
        path = folder / "newtree" / row["label"] / row["label2"] / f"{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(row["other"] * 2)
        path = folder / "mail" / row["label"] / f"{i}.eml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"From: x@{row['label']}.org\nSubject: s\nX-{row['label2']}: {row['other']}\n\n{row['text']}\n"
        )
    model = ["--kernel", "spectrum:3", "--text", "text", "--label", "label"]
    run("train", "t.csv", *model, "-o", "m.textsvm", cwd=folder)
    run("train", "t.csv", *model, "--calibrate", "sigmoid", "-o", "c.textsvm", cwd=folder)
    run("train", "long.csv", *model, "--chunk", "100", "-o", "p.textsvm", cwd=folder)
    run("train", "t.csv", *model[:4], "--regress", "score", "-o", "r.textsvm", cwd=folder)
    run("train", "tree", "--kernel", "spectrum:3", "--level", "2", "-o", "f.textsvm", cwd=folder)
    run("train", "vectors.npy", "--labels", "y.txt", "--kernel", "linear", "-o", "v.textsvm", cwd=folder)
    return folder


def without_repetition(value):
    """JSON without what was asked, and without times."""
    if isinstance(value, dict):
        return {k: without_repetition(v) for k, v in value.items() if k not in REPEATED}
    return [without_repetition(part) for part in value] if isinstance(value, list) else value


def result(command, corpus, arguments, folder):
    """Exit code, figures and files of a command; decision values of a model."""
    for path in folder.glob("out*"):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    corpus, _, model = corpus.partition(" with ")
    base = BASES[command].format(corpus=corpus, model=model or "m.textsvm")
    done = run(*shlex.split(base), *shlex.split(arguments), cwd=folder)
    printed = done.stdout.decode()
    try:
        printed = without_repetition(json.loads(printed))
    except ValueError:
        printed = re.sub(r"\d+(\.\d+)? s\b", "", printed)
    values = [done.returncode, printed]
    for path in sorted(
        path for path in folder.rglob("*") if "out" in str(path.relative_to(folder)) and path.is_file()
    ):
        if path.suffix != ".textsvm":
            values.append(path.read_bytes())
            continue
        model = load(path).model_
        numbers = [np.sort(np.ravel(model.predictor.dual_coef)), model.predictor.intercept]
        values += [
            repr(model.rule),
            model.support.weights is None,
            *(np.round(x, 9).tolist() for x in numbers),
        ]
    return values, done.stderr.decode()


#: Options that change only what is said on stderr.
SAID = {("explain", "--skip-invalid")}


def row_of(command, option):
    return OWN.get((command, option)) or ROWS.get(option)


def elsewhere(command, option):
    """The test file that a row names."""
    return ELSEWHERE.get(command, {}).get(option) or ELSEWHERE[""].get(option)


CASES = [
    (command, option)
    for command in BASES
    for option in commands()[command]
    if (command, option) in OWN or (option in ROWS and not elsewhere(command, option))
]


def test_every_option_has_a_row():
    options = [(command, option) for command, options in commands().items() for option in options]
    rest = [case for case in options if case not in CASES]
    assert [case for case in rest if not elsewhere(*case)] == []
    short = {"--output": "-o", "--passthrough": "-p", "--embed": "-e", "--verbose": "-v"}
    untested = []
    for command, option in rest:
        text = (TESTS / f"test_{elsewhere(command, option)}.py").read_text(encoding="utf-8")
        names = option.strip("-"), option.strip("-").replace("-", "_"), f'"{short.get(option)}"'
        untested += [] if any(name in text for name in names) else [(command, option)]
    assert untested == []
    for command, option in OWN:
        assert option in commands()[command]


def of_command(command, arguments):
    """Arguments without options that a command does not have."""
    words, own = shlex.split(arguments), commands()[command]
    pairs = [
        (word, words[i + 1 : i + 2])
        for i, word in enumerate(words)
        if (word.startswith("-") and word[1:2].isalpha()) or word.startswith("--")
    ]
    shown = []
    for word, value in pairs:
        if word in own:
            shown += [word, *(v for v in value if not v.startswith("--"))]
    return " ".join(map(shlex.quote, shown))


def check(command, option, world):
    corpus, common, first, second = row_of(command, option)
    common = of_command(command, common)
    common += " " + FAST if "--kernel" in commands()[command] and "--kernel" not in first + common else ""
    first, second = (of_command(command, value) for value in (first, second))
    one, said = result(command, corpus, f"{common} {first}", world)
    other, complaint = result(command, corpus, f"{common} {second}", world)
    if (command, option) in SAID:
        one, other = [*one, said], [*other, complaint]
    assert one != other, (said, complaint)
    assert 0 in (one[0], other[0]), (said, complaint)
    assert 2 not in (one[0], other[0]), (said, complaint)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "option"), CASES)
def test_every_option_does_something(command, option, world):
    check(command, option, world)


@pytest.mark.parametrize(("command", "option"), [("cv", "--seed"), ("tune", "--seed")])
def test_seeds_draw_other_folds(command, option, world):
    check(command, option, world)


def test_the_same_command_gives_the_same_result(world):
    """Else two values would differ by chance."""
    for command in ("corpus", "train", "evaluate", "predict", "cv", "tune"):
        arguments = of_command(command, f"{READ} {FAST}")
        assert result(command, "t.csv", arguments, world)[0] == result(command, "t.csv", arguments, world)[0]
