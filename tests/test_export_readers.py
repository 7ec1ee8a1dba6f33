"""Readers of exported models in C and JavaScript: damaged files, wrong arguments, and tasks."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported import (
    NODE,
    SANITISED,
    SOURCES,
    WARNINGS,
    CModel,
    close,
    javascript_module,
    library,
    needs_gcc,
    needs_node,
)
from test_export import PLAIN, fitted, training

import textsvm
from textsvm import BoundedGap, CalibratedSVC, GappedKmers, Spectrum
from textsvm.apps.export.binary import pack, with_checksum
from textsvm.apps.export.plain import plain_model

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")
NO_MODEL, NO_MEMORY, UNSUPPORTED, BAD_ARGUMENT = 1, 2, 4, 5
NO_CLASS = -2


@lru_cache
def content() -> bytes:
    return pack(plain_model(fitted("default")))


def packed(kernel: Any) -> np.ndarray:
    """Words of the model file of a kernel, or of a model by its name."""
    return np.frombuffer(pack(plain_model(fitted(kernel))), np.uint32).copy()


def error_of(words: np.ndarray) -> int:
    return CModel(with_checksum(bytearray(words.tobytes()))).error


def flipped(data: bytes) -> list[tuple[int, int]]:
    """Byte and bit of 200 flips."""
    rng = np.random.default_rng(0)
    return [(int(rng.integers(len(data))), int(rng.integers(8))) for _ in range(200)]


@needs_gcc
def test_flipped_bits_in_c():
    assert CModel(content()).error == 0
    for byte, bit in flipped(content()):
        damaged = bytearray(content())
        damaged[byte] ^= 1 << bit
        assert CModel(bytes(damaged)).error == NO_MODEL, (byte, bit)


def in_node(script: str, *arguments: Any) -> Any:
    """JSON that a script prints; it has Model, readFileSync and the arguments."""
    start = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ Model, TextsvmError }} from {json.dumps(javascript_module())};
        const given = {json.dumps([str(each) if isinstance(each, Path) else each for each in arguments])};
        const failure = (work) => {{
          try {{ return work(); }} catch (error) {{ return [error.name, error.message]; }}
        }};
        const print = (value) => console.log(JSON.stringify(value));
    """
    done = subprocess.run([NODE, "--input-type=module"], input=(start + script).encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "model.bin").write_bytes(content())
    return tmp_path / "model.bin"


@needs_node
def test_flipped_bits_in_javascript(file):
    script = """
        const data = readFileSync(given[0]);
        new Model(data);
        print(given[1].map(([byte, bit]) => {
          const copy = new Uint8Array(data);
          copy[byte] ^= 1 << bit;
          return failure(() => new Model(copy) && "opened")[0];
        }));
    """
    assert set(in_node(script, file, flipped(content()))) == {"TextsvmError"}


@needs_node
def test_misaligned_buffer(file):
    script = """
        const whole = Buffer.concat([Buffer.from([7]), readFileSync(given[0])]);
        print([...new Model(whole.subarray(1)).decide("win cash")]);
    """
    assert close(in_node(script, file), fitted("default").decision_function(["win cash"])[0])


@needs_node
def test_damaged_headers_with_a_right_checksum_in_javascript(file, tmp_path):
    words, rng = np.frombuffer(content(), np.uint32), np.random.default_rng(0)
    about = int(words[34]) * 2
    for number in range(150):
        copy = words.copy()
        place = about + int(rng.integers(20)) if number < 20 else int(rng.integers(4, 36))
        copy[place] = rng.choice([0, 1, 2, 5, 40, 1 << 16, 1 << 31, 0xFFFFFFFF, copy[place] ^ 4])
        (tmp_path / f"{number}.bin").write_bytes(with_checksum(bytearray(copy.tobytes())))
    script = """
        const results = [];
        for (let number = 0; number < 150; number++)
          results.push(failure(() => {
            const model = new Model(readFileSync(`${given[0]}/${number}.bin`));
            for (const text of ["win cash", "", "\ufdfa".repeat(100)]) {
              model.predict(text), model.predictionSet(text), model.probabilities(model.decide(text));
              model.explain(text);
            }
            return ["opened"];
          })[0]);
        print(results);
    """
    results = in_node(script, tmp_path)
    assert set(results) == {"TextsvmError", "opened"}
    assert results.count("TextsvmError") > 70


@needs_node
def test_memory_of_javascript_grows_with_the_text_and_its_normal_form(file):
    texts = ["cash " * 100, "x" * 50_000, "\ufdfa" * 3000, "at noon"]
    script = """
        const model = new Model(readFileSync(given[0]));
        print(given[1].map((text) => {
          const { decision, contributions, bias } = model.explain(text);
          return [[...decision], contributions.reduce((sum, value) => sum + value, bias)];
        }));
    """
    results = in_node(script, file, texts)
    assert close([decision for decision, _ in results], fitted("default").decision_function(texts))
    assert close([explained for _, explained in results], [decision[0] for decision, _ in results])


@needs_node
def test_contributions_stand_at_the_units_that_they_come_from(tmp_path):
    model = textsvm.SVC(Spectrum(1, "count", normalised=False)).fit(["ab", "cd", "\U0001f600"], [0, 1, 0])
    textsvm.export(model, tmp_path / "m.bin")
    script = """
        const { contributions, bias } = new Model(readFileSync(given[0])).explain(given[1]);
        print([[...contributions], bias]);
    """
    shares, bias = in_node(script, tmp_path / "m.bin", "B\U0001f600 \u2170zb")
    values = {c: model.decision_function([c])[0] - bias for c in "b i\U0001f600"}
    assert close(shares[0], values["b"])
    assert close(shares[1:3], values["\U0001f600"] / 2)
    assert close(shares[-1], values["b"])
    assert close(sum(shares) + bias, model.decision_function(["B\U0001f600 \u2170zb"])[0])


@needs_node
def test_javascript_in_a_worker(file, tmp_path):
    script = """
        const { Worker } = await import("node:worker_threads");
        const code = `
          const { parentPort, workerData } = await import("node:worker_threads");
          const { Model } = await import(workerData[0]);
          parentPort.postMessage(new Model(workerData[1]).predict("win cash"));`;
        const url = new URL("data:text/javascript," + encodeURIComponent(code));
        const worker = new Worker(url, { workerData: [given[1], readFileSync(given[0])] });
        print(await new Promise((resolve, reject) => worker.on("message", resolve).on("error", reject)));
    """
    assert in_node(script, file, javascript_module()) == fitted("default").predict(["win cash"])[0]


@needs_node
def test_texts_of_other_types_in_javascript(file):
    script = """
        const model = new Model(readFileSync(given[0]));
        print([undefined, null, 5, {}, ["a"]].flatMap((text) =>
          [failure(() => model.predict(text)), failure(() => model.explain(text))]));
    """
    failures = in_node(script, file)
    assert {name for name, _ in failures} == {"TextsvmError"}
    assert {message for _, message in failures[::2]} == {"a text must be a string or a Uint8Array"}
    textsvm.export(fitted("words of columns"), file, force=True)
    script = """
        const model = new Model(readFileSync(given[0]));
        print([model.columns, [{}, { body: 1 }, null, 5].map((text) => failure(() => model.decide(text)))]);
    """
    columns, failures = in_node(script, file)
    message = "give an object with the texts title, body"
    assert (columns, failures) == (["title", "body"], [["TextsvmError", message]] * 4)


@needs_gcc
def test_invalid_utf8_is_replaced_as_in_python():
    exported = CModel(content())
    for lead in range(0x80, 0x100):
        for second in (0x20, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xF4):
            data = bytes([0x61, lead, second, 0x80, 0x80, 0x62])
            same = exported.decide(data.decode("utf-8", "replace"))
            assert exported.decide(data).tolist() == same.tolist(), data.hex()


#: Bounds of rejection, and the class of a text whose two probabilities are 0.5, -1 for "unsure".
REJECTED = {(0.5,): 0, (0.5000001,): -1, (0.5, 0.7): 0, (0.3, 0.5): 1, (0.4, 0.6): -1}


@lru_cache
def even_model(bounds: tuple[float, ...]) -> Any:
    """A description of a model that gives both classes the probability 0.5 for each text."""
    texts, _ = training(PLAIN)
    labels = ["ab"[i % 2] for i in range(len(texts))]
    plain = plain_model(CalibratedSVC(textsvm.SVC(Spectrum(2)), cv=3).fit(texts, labels))
    return replace(plain, reject=bounds, calibration={"a": np.zeros(1), "b": np.zeros(1)})


@needs_gcc
@pytest.mark.parametrize("bounds", REJECTED, ids=str)
def test_probabilities_at_a_bound_of_rejection_in_c(bounds):
    exported = CModel(pack(even_model(bounds)))
    values = exported.decide("cash")
    assert exported.probabilities(values).tolist() == [0.5, 0.5]
    assert exported.predict(values) == REJECTED[bounds]


@needs_node
def test_probabilities_at_a_bound_of_rejection_in_javascript(tmp_path):
    for number, bounds in enumerate(REJECTED):
        (tmp_path / f"{number}.bin").write_bytes(pack(even_model(bounds)))
    script = """
        print([0, 1, 2, 3, 4].map((number) => {
          const model = new Model(readFileSync(`${given[0]}/${number}.bin`));
          return [model.classNumber(model.decide("cash")), model.predict("cash")];
        }));
    """
    assert in_node(script, tmp_path) == [[k, ["a", "b", "unsure"][k]] for k in REJECTED.values()]


@needs_node
def test_coverage_in_javascript(tmp_path):
    model = fitted("sigmoid 3 None")
    (tmp_path / "m.bin").write_bytes(pack(plain_model(model)))
    script = """
        const model = new Model(readFileSync(given[0]));
        print([model.predictionSet("cash", 0.9), failure(() => model.predictionSet("cash", 95))]);
    """
    chosen, error = in_node(script, tmp_path / "m.bin")
    assert chosen == model.classes_[model.predict_set(["cash"], 0.9)[0]].tolist()
    assert error == ["TextsvmError", "coverage must be between 0 and 1, got 95"]


@needs_gcc
def test_other_versions_are_refused():
    """Files of columns have version 4: older readers refuse them instead of reading a single text."""
    words = np.frombuffer(content(), np.uint32).copy()
    for version in (0, 1, 2, 7):
        words[2] = version
        assert error_of(words) == NO_MODEL
    words = packed("words of columns")
    assert (words[2], words[38]) == (4, 2)
    for n_columns in (100, 1, 2**32 - 1):
        words[38] = n_columns
        assert error_of(words) == NO_MODEL


@needs_gcc
def test_offsets_ascend():
    words = packed(GappedKmers(4, 2))
    table = 2 * words[2 * words[13] + 6]
    offsets = words[2 * words[table + 10] :]
    assert error_of(words) == 0
    offsets[:2] = offsets[1], offsets[0]
    assert error_of(words) == NO_MODEL


@needs_gcc
@pytest.mark.parametrize(("form", "code"), [("none", 0), ("unicode", 1), ("paper", 2)])
@pytest.mark.parametrize("punctuation", [False, True])
def test_normal_form_of_the_header(form, code, punctuation):
    words = packed(f"{form} {punctuation}")
    assert words[27:29].tolist() == [code, punctuation]
    words[27] = 3
    assert error_of(words) == NO_MODEL


def opened(words: bytes, max_symbols: int) -> tuple[int, int, int]:
    """Error codes of both ways to open a model, and the size of its memory."""
    error, room = ctypes.c_int(), np.zeros(1 << 20)
    exported = CModel(words, max_symbols)
    data, most = exported.words.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(max_symbols)
    n, memory = ctypes.c_size_t(len(words)), library().textsvm_memory
    library().textsvm_open_in(data, n, most, room.ctypes.data_as(ctypes.c_void_p), ctypes.byref(error))
    return exported.error, error.value, memory(data, n, most)


@needs_gcc
def test_too_many_symbols():
    assert opened(content(), (1 << 28) + 1) == (BAD_ARGUMENT, BAD_ARGUMENT, 0)
    assert opened(packed(BoundedGap(4)).tobytes(), 1 << 28) == (NO_MEMORY, NO_MEMORY, 0)


@needs_gcc
def test_tasks():
    text = PLAIN[0]
    for task, name in enumerate(("default", "several labels", "numbers", "one class")):
        exported = CModel(pack(plain_model(fitted(name))))
        assert library().textsvm_task(exported.handle) == task
        assert exported.n_decisions == (3, 3, 1, 1)[task]
        number = exported.predict(exported.decide(text))
        assert (number == NO_CLASS) == (task in (1, 2))
        assert task not in (1, 2) or exported.class_name(number) == ""


@needs_gcc
def test_coverage():
    model = fitted("sigmoid 3 None")
    p, has = np.full(3, 1 / 3), np.zeros(3, np.uint8)
    arrays = [each.ctypes.data_as(ctypes.c_void_p) for each in (p, has)]
    for trained, coverage, code in (
        (model, 0.95, 0),
        (model, 95.0, BAD_ARGUMENT),
        (fitted("default"), 0.95, UNSUPPORTED),
    ):
        exported = CModel(pack(plain_model(trained)))
        of = (exported.handle, arrays[0], ctypes.c_double(coverage), 0, arrays[1])
        assert library().textsvm_set(*of) == code


@needs_gcc
def test_example_of_the_header(tmp_path):
    texts, _ = training(PLAIN)
    model = textsvm.SVC(Spectrum(2)).fit(texts, [f"class {i % 40}" for i in range(len(texts))])
    textsvm.export(model, tmp_path / "c", to="c")
    comment = (SOURCES / "textsvm.h").read_text().split("#ifndef")[0]
    example = "\n".join(re.findall(r"^ \*     (.*)", comment, re.MULTILINE))
    (tmp_path / "main.c").write_text(f"""
        #include "textsvm.h"
        #include <stdio.h>
        #include <stdlib.h>
        static void run(const void *data, size_t bytes, const char *text, size_t length) {{ {example} }}
        int main(void) {{
            run("no model", 8, "at", 2);
            static unsigned long long data[1 << 20];
            FILE *file = fopen("model.bin", "rb");
            run(data, fread(data, 1, sizeof data, file), "cash at noon", 12);
            return fclose(file);
        }}
    """)
    sources = [tmp_path / "main.c", tmp_path / "c" / "textsvm.c"]
    command = [*SANITISED, *WARNINGS, f"-I{tmp_path / 'c'}"]
    subprocess.run([*command, *map(str, sources), "-o", str(tmp_path / "program"), "-lm"], check=True)
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True, cwd=tmp_path / "c")
    assert (done.returncode, done.stdout) == (0, model.predict(["cash at noon"])[0] + "\n"), done.stderr


@needs_node
@pytest.mark.parametrize(
    ("kernel", "n"), [(Spectrum((3, 4)), 97), (BoundedGap(4), 0), (GappedKmers(4, 1), 0)]
)
def test_substrings_of_four_characters(kernel, n, tmp_path):
    textsvm.export(fitted(kernel), tmp_path / "m.bin")
    script = 'print(new Model(readFileSync(given[0])).explain("x".repeat(100)).substrings);'
    assert in_node(script, tmp_path / "m.bin") == {"all": n, "unknown": n}
