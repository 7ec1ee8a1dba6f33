"""Exported models in JavaScript; files, errors and the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import run, works
from exported import SANITISED, SOURCES, WARNINGS, close, decides_as_python, in_node, needs_gcc, needs_node
from refusals import refuses
from test_export import KERNELS, LABELS, PLAIN, TABLE, fitted, training

import textsvm
from textsvm import EditDistance, GappedKmers, Gaussian, InputError, On, Product, Spectrum, Sum
from textsvm.apps.export.plain import plain_model

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")


@needs_node
def test_halves_of_characters_in_javascript(tmp_path):
    model = fitted("default")
    textsvm.export(model, tmp_path / "js", to="js")
    texts = [
        "\ud800 lone",
        "long " * 4000,
        b"a\xc3",
        b"\xed\xa0\x80b",
        b"\xf0\x9f\x91",
        b"\xff\xfe",
        b"\xef\xbb\xbfbom",
    ]
    results = in_node(tmp_path / "js", [text if isinstance(text, str) else list(text) for text in texts])
    read = [text if isinstance(text, str) else text.decode("utf-8", "replace") for text in texts]
    assert close([each["decision"] for each in results], model.decision_function(read))


@pytest.mark.slow
def test_wasm_is_up_to_date():
    pytest.importorskip("ziglang")
    script = SOURCES.parents[2] / "docs" / "tools" / "wasm.py"
    if not script.exists():
        pytest.skip("no checkout")
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_gcc
def test_c_program(tmp_path):
    model = fitted("default")
    textsvm.export(model, tmp_path / "model", to="c")
    (tmp_path / "main.c").write_text(PROGRAM)
    folder, program = tmp_path / "model", tmp_path / "program"
    sources = [tmp_path / "main.c", folder / "textsvm.c"]
    command = [*SANITISED, *WARNINGS, f"-I{folder}"]
    subprocess.run([*command, *map(str, sources), "-o", str(program), "-lm"], check=True)
    done = subprocess.run(
        [str(program), str(folder / "model.bin")],
        input=b"\n".join(map(str.encode, PLAIN)),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines() == [*model.predict(PLAIN).tolist(), "fuzzed"]


PROGRAM = r"""
#include "textsvm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int n_names, char **names) {
    char line[1000];
    double decision[3];
    unsigned state = 1;
    FILE *file = fopen(names[n_names - 1], "rb");
    void *data = malloc(1 << 26);
    size_t bytes = fread(data, 1, 1 << 26, file);
    textsvm *m = textsvm_open(data, bytes, 500, NULL);
    fclose(file);
    if (!m) return 1;
    while (fgets(line, sizeof line, stdin)) {
        if (textsvm_decide_with(m, line, strcspn(line, "\n"), decision)) return 2;
        puts(textsvm_class(m, textsvm_predict(m, decision), NULL));
    }
    for (int i = 0; i < 3000; i++) { /* random bytes, in a buffer of their size for the sanitiser */
        size_t n = (size_t)(i % 700);
        char *text = malloc(n ? n : 1);
        int code;
        for (size_t k = 0; k < n; k++) {
            state = state * 1664525u + 1013904223u;
            text[k] = i % 3 ? (char)(state >> 24) : "\xcc\x81\xed\xef\xb7\xba\xc3 a\xf0"[(state >> 24) % 10];
        }
        code = textsvm_decide_with(m, text, n, decision);
        free(text);
        if (code && code != TEXTSVM_TOO_LONG) return 3;
    }
    puts("fuzzed");
    textsvm_close(m);
    free(data);
    return 0;
}
"""


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("kernel", [0, 3, 9, 11], ids=lambda number: repr(KERNELS[number]))
def test_damaged_files_in_c(kernel, tmp_path):
    texts, labels = training(PLAIN)
    model = textsvm.CalibratedSVC(textsvm.SVC(KERNELS[kernel]), cv=3).fit(texts, labels)
    textsvm.export(model, tmp_path / "model", to="c")
    program, file = sanitised(tmp_path), str(tmp_path / "model" / "model.bin")
    done = subprocess.run([program, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def sanitised(folder: Path) -> str:
    """A program that decides and explains texts by damaged copies of a model file, with wasm.c."""
    (folder / "main.c").write_text(DAMAGE)
    command = [*SANITISED, "-O1", f"-I{SOURCES}"]
    command += [str(folder / "main.c"), "-o", str(folder / "program"), "-lm"]
    subprocess.run(command, check=True)
    return str(folder / "program")


DAMAGE = r"""
#include "wasm.c"
#include <stdio.h>
static unsigned state = 1;
static unsigned draw(unsigned n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}
static void explain(textsvm *m) {
    static const uint16_t text[] = {'W', 'i', 'n', ' ', 0x301, 0xFDFA, 0xD83D, 0xDE00, 0xD800, '?', ' ', 'a'};
    size_t n = sizeof text / sizeof *text, columns = textsvm_columns(m);
    size_t *sizes = malloc(columns * sizeof *sizes);
    const char **units = malloc(columns * sizeof *units); /* of each column the same */
    for (size_t c = 0; c < columns; c++) units[c] = (const char *)text, sizes[c] = n;
    void *memory = malloc(textsvm_explain_memory(m->n_machines, m->max_symbols));
    double *contributions = malloc(columns * n * sizeof *contributions), totals[3];
    textsvm_explain(m, units, sizes, draw(3), memory, contributions, totals);
    free(memory), free(contributions), free(sizes), free(units);
}
static void set_checksum(uint32_t *words, size_t n) { /* so that the other checks are tested */
    unsigned a = 0, b = 0;
    words[36] = words[37] = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned x = mix(words[i] ^ (unsigned)i * 0x9E3779B9u);
        a += x, b += x * (x | 1);
    }
    words[36] = a, words[37] = b;
}
int main(int n, char **names) {
    static const char *texts[] = {
        "win CASH, now", "\xcc\x81\xed\xef\xb7\xba a\xf0 \xe1\xbe\xb3\xcc\x88", "", "aaaaaaaaaa aaaa"};
    FILE *file = fopen(names[n - 1], "rb");
    uint32_t *whole = malloc(1 << 26), *copy;
    size_t bytes = fread(whole, 1, 1 << 26, file), words = bytes / 4;
    int opened = 0;
    fclose(file);
    copy = malloc(bytes);
    for (int i = 0; i < 3000; i++) {
        textsvm *m;
        memcpy(copy, whole, bytes);
        for (unsigned k = draw(4) + 1; k--;) {
            /* words of the header, of views or terms, or any; one bit, small or large */
            size_t at = draw(3) ? draw(64) : draw((unsigned)words);
            if (draw(2)) at = whole[11 + 2 * draw(2)] * 2 + draw(64);
            if (at >= words) at = draw((unsigned)words);
            copy[at] = draw(3) ? copy[at] ^ 1u << draw(32) : draw(2) ? draw(100) : ~draw(100);
        }
        set_checksum(copy, copy[3] <= words / 2 ? 2 * (size_t)copy[3] : 0);
        m = textsvm_open(copy, bytes, 200, NULL);
        if (!m) continue;
        opened++;
        double *values = malloc(8 * textsvm_decisions(m)), *p = malloc(8 * (textsvm_classes(m) + 1));
        unsigned char *has = malloc(textsvm_classes(m) + 1);
        for (int k = 0; k < 4; k++) {
            if (textsvm_decide_with(m, texts[k], strlen(texts[k]), values)) continue;
            textsvm_class(m, textsvm_predict(m, values), NULL);
            textsvm_labels(m, values, has);
            if (!textsvm_probabilities(m, values, p)) textsvm_set(m, p, 0.9, k & 1, has);
        }
        free(values), free(p), free(has);
        explain(m);
        textsvm_close(m);
    }
    free(copy), free(whole);
    return opened < 100;
}
"""


def test_command(tmp_path):
    textsvm.save(fitted("default"), tmp_path / "model")
    arguments = ["export", str(tmp_path / "model"), "--to", "js", "-o", str(tmp_path / "js")]
    assert "js" in works(*arguments).stdout.decode()
    again = run(*arguments)
    assert again.returncode == 2
    assert again.stderr.count(b"force") == 1
    assert b"--to" not in again.stderr


def test_command_names_the_columns_of_a_text(tmp_path):
    rows = [f"{word} {i},{word} now,{word}" for i in range(6) for word in ("cash", "noon")]
    (tmp_path / "t.csv").write_text("\n".join(["title,body,kind", *rows]))
    joined = "a text is the columns title + body; + is a line break"
    several = "texts in the order of the columns title, body + title; + is a line break"
    of_table = "title=spectrum:2+body,title=spectrum:3"
    for text, kernel, said in (
        (["--text", "title,body"], "spectrum:2", joined), (["--text", "title"], "spectrum:2", ""),
        ([], of_table, several),
    ):  # fmt: skip
        model = tmp_path / "model"
        options = [*text, "--label", "kind", "--kernel", kernel, "-o", str(model), "--force"]
        assert run("train", str(tmp_path / "t.csv"), *options).returncode == 0
        done = run("export", str(model), "-o", str(tmp_path / f"{len(said)}.bin"))
        assert said in done.stdout.decode()
        assert ("line break" in done.stdout.decode()) == bool(said)


PRODUCT = Product([Spectrum(1), EditDistance()])
DNA = ["acgtacgtnacg", "ACGTTTACGGGACGT", "gattacagattaca", "uuuuacgacgua"]


def test_models_that_cannot_be_exported(tmp_path):
    texts, labels = ["ab", "cd", "abc", "cde"], [0, 1, 0, 1]
    models = {
        "gamma=0.05, which has no list of features, cannot": textsvm.SVC(PRODUCT).fit(texts, labels),
        "has no list of features": textsvm.SVC(Sum([Spectrum(1), EditDistance()])).fit(texts, labels),
        "of both strands of DNA cannot": textsvm.SVC(GappedKmers(3, 1, canonical=True)).fit(DNA, labels),
        "of both words and runs cannot": textsvm.SVC(
            Sum([Spectrum(1, tokens="words"), Spectrum(1, tokens="runs")])
        ).fit(texts, labels),
        "of proteins cannot": textsvm.SVC(Spectrum(2, tokens="blosum62")).fit(texts, labels),
        "a model of vectors instead": textsvm.SVC(textsvm.Linear()).fit(np.eye(4), labels),
        "precomputed": textsvm.SVC("precomputed").fit(np.eye(4, dtype=np.float32), labels),
        "function of tokens cannot": textsvm.SVC(Spectrum(1, tokens=list)).fit(texts, labels),
        "not fitted": textsvm.SVC(),
    }
    table: dict[str, Any] = {**TABLE, "hour": list(range(48)), "size": list(range(48))}
    for message, kernel in (
        ("numbers of columns hour, size cannot", On("title", Spectrum(2)) + On(["hour", "size"], Gaussian())),
        ("no list of features, cannot", Product([On("title", Spectrum(2)), On("body", Spectrum(2))])),
    ):
        models[message] = textsvm.SVC(kernel).fit(table, LABELS)
    for message, model in models.items():
        with pytest.raises((InputError, ValueError), match=message):
            textsvm.export(model, tmp_path / "out", to="c")
        assert not (tmp_path / "out").exists()
    refuses("does not exist", textsvm.export, fitted("default"), tmp_path / "no" / "out.bin")
    (tmp_path / "folder.bin").mkdir()
    with pytest.raises(InputError, match=r"x\.html ends in .html, but the format is c; name a folder"):
        textsvm.export(fitted("default"), tmp_path / "x.html", to="c")
    refuses("is a folder", textsvm.export, fitted("default"), tmp_path / "folder.bin")
    refuses(r"folder\.bin is a folder", textsvm.export, fitted("default"), tmp_path / "folder.bin", to="page")
    (tmp_path / "x.bin").touch()
    for force in (False, True):
        with pytest.raises(InputError, match=r"ends in .bin, but the format is page; name a .html file"):
            textsvm.export(fitted("default"), tmp_path / "x.bin", to="page", force=force)


@pytest.mark.parametrize(("name", "to"), [("p.htm", "page"), ("weights", "bin")])
def test_a_format_that_is_given_takes_any_other_suffix(name, to, tmp_path):
    assert textsvm.export(fitted("default"), tmp_path / name, to=to) == [tmp_path / name]


@needs_gcc
def test_pipeline(tmp_path):
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    svc = textsvm.SVC(Spectrum((1, 2)))
    decides_as_python("c", Pipeline([("svc", svc)]).fit(*training(PLAIN)), PLAIN, tmp_path)
    several = Pipeline([("lower", FunctionTransformer(str.lower)), ("svc", svc)])
    refuses("first steps would be missing", plain_model, several)


@pytest.mark.parametrize("label", ["\ud800", "a\udfff"])
def test_half_a_surrogate_pair_is_no_label(label, tmp_path):
    texts, labels = ["win cash", "lunch"] * 3, [label, "ham"] * 3
    svc, online = textsvm.SVC(Spectrum(2)), textsvm.OnlineSVC
    for refused in (
        lambda: svc.fit(texts, labels),
        lambda: textsvm.CalibratedSVC(svc, cv=2).fit(texts, labels),
        lambda: textsvm.MultilabelSVC(Spectrum(2)).fit(texts, [{name} for name in labels]),
        lambda: online().partial_fit(texts[:2], ["ham", "egg"], classes=["ham", "egg", label]),
        lambda: online().fit(texts, ["egg", "ham"] * 3).add_classes([label]),
    ):
        refuses("lone surrogate", refused)
