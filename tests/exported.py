"""Exported models in C, for tests: compiled once, called through ctypes. Hostile texts for all formats."""

from __future__ import annotations

import base64
import ctypes
import json
import lzma
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import textsvm
import textsvm.apps.export
from textsvm.apps.export.binary import pack
from textsvm.apps.export.files import source_of
from textsvm.apps.export.plain import PlainModel, plain_model

SOURCES = Path(textsvm.apps.export.__file__).parent
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node")
NODE = shutil.which("node") or ""
SANITISED = ["gcc", "-std=c99", "-g", "-fsanitize=address,undefined"]


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "textsvm.so")
    command = [
        "gcc",
        "-std=c99",
        "-O3",
        *WARNINGS,
        "-shared",
        "-fPIC",
        str(SOURCES / "textsvm.c"),
        "-o",
        path,
    ]
    subprocess.run([*command, "-lm"], check=True)
    loaded = ctypes.CDLL(path)
    shutil.rmtree(folder)
    loaded.textsvm_open.restype = ctypes.c_void_p
    loaded.textsvm_class.restype = ctypes.c_void_p
    loaded.textsvm_memory.restype = ctypes.c_size_t
    loaded.textsvm_decisions.restype = loaded.textsvm_classes.restype = ctypes.c_size_t
    return loaded


@lru_cache(maxsize=1)
def javascript_module() -> str:
    """URL of textsvm.mjs as it is exported."""
    content = base64.b64encode(source_of("textsvm.mjs")).decode()
    return f"data:text/javascript;base64,{content}"


class CModel:
    """A model file in C."""

    def __init__(self, content: bytes, max_symbols: int = 1 << 16) -> None:
        self.words, error = (
            np.frombuffer(content + bytes(-len(content) % 8), np.uint64).copy(),
            ctypes.c_int(),
        )
        data = self.words.ctypes.data_as(ctypes.c_void_p)
        handle = library().textsvm_open(
            data, ctypes.c_size_t(len(content)), ctypes.c_size_t(max_symbols), ctypes.byref(error)
        )
        self.error = error.value
        self.handle = ctypes.c_void_p(handle)

    def __del__(self) -> None:
        library().textsvm_close(self.handle)

    @property
    def n_decisions(self) -> int:
        return int(library().textsvm_decisions(self.handle))

    @property
    def n_classes(self) -> int:
        return int(library().textsvm_classes(self.handle))

    def try_decide(self, content: bytes) -> tuple[int, np.ndarray]:
        values = np.empty(self.n_decisions)
        code = library().textsvm_decide_with(
            self.handle, content, ctypes.c_size_t(len(content)), values.ctypes.data_as(ctypes.c_void_p)
        )
        return code, values

    def decide_columns(self, texts: list[str]) -> np.ndarray:
        contents, values = [text.encode("utf-8", "replace") for text in texts], np.empty(self.n_decisions)
        sizes = (ctypes.c_size_t * len(contents))(*map(len, contents))
        code = library().textsvm_decide_columns(
            self.handle, (ctypes.c_char_p * len(contents))(*contents), sizes,
            values.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        assert code == 0
        return values

    def decide(self, content: bytes | str) -> np.ndarray:
        content = content.encode() if isinstance(content, str) else content
        code, values = self.try_decide(content)
        assert code == 0
        return values

    def predict(self, values: np.ndarray) -> int:
        return int(library().textsvm_predict(self.handle, values.ctypes.data_as(ctypes.c_void_p)))

    def class_name(self, number: int) -> str:
        size = ctypes.c_size_t()
        pointer = library().textsvm_class(self.handle, number, ctypes.byref(size))
        return ctypes.string_at(pointer, size.value).decode()

    def labels(self, values: np.ndarray) -> list[bool]:
        has = np.zeros(self.n_classes, np.uint8)
        code = library().textsvm_labels(
            self.handle, values.ctypes.data_as(ctypes.c_void_p), has.ctypes.data_as(ctypes.c_void_p)
        )
        assert code == 0
        return has.astype(bool).tolist()

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        p = np.empty(self.n_classes)
        code = library().textsvm_probabilities(
            self.handle, values.ctypes.data_as(ctypes.c_void_p), p.ctypes.data_as(ctypes.c_void_p)
        )
        assert code == 0
        return p

    def set_of(self, p: np.ndarray, coverage: float, per_class: bool) -> list[bool]:
        has = np.zeros(self.n_classes, np.uint8)
        code = library().textsvm_set(
            self.handle, p.ctypes.data_as(ctypes.c_void_p), ctypes.c_double(coverage), int(per_class),
            has.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        assert code == 0
        return has.astype(bool).tolist()


def in_node(folder: Path, texts: list[Any]) -> list[dict[str, Any]]:
    """Results of an exported folder for some texts."""
    script = Path(__file__).parent / "exported.mjs"
    command = [NODE, *map(str, (script, folder / "model.bin", folder / "textsvm.mjs"))]
    done = subprocess.run(command, input=json.dumps(texts).encode(), check=True, capture_output=True)
    return json.loads(done.stdout)


class OnnxModel:
    """A model in onnxruntime, on one thread."""

    def __init__(self, model: Any) -> None:
        pytest.importorskip("onnx")
        onnxruntime = pytest.importorskip("onnxruntime")
        from textsvm.apps.export.onnx import onnx_of

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        content = onnx_of(model if isinstance(model, PlainModel) else plain_model(model))
        self.session = onnxruntime.InferenceSession(content, options)
        self.names = [each.name for each in self.session.get_outputs()]

    def __call__(self, texts: list[str] | dict[str, list[str]]) -> dict[str, Any]:
        columns = texts if isinstance(texts, dict) else {"texts": texts}
        arrays = {name: np.array(column, object) for name, column in columns.items()}
        return dict(zip(self.names, self.session.run(None, arrays), strict=True))


def answers_of_python(model: Any, texts: Any) -> dict[str, Any]:
    """What every form of an exported model has to say: as strings where a form knows no other labels."""
    n = len(next(iter(texts.values()))) if isinstance(texts, dict) else len(texts)
    decide = getattr(model, "decision_function", model.predict)
    answers = {"decision": np.reshape(decide(texts), (n, -1))}
    predicted = model.predict(texts)
    if isinstance(model, textsvm.OneClassSVM):
        answers["predicted"] = [int(each) for each in predicted]
    elif isinstance(model, textsvm.MultilabelSVC):
        answers["predicted"] = [tuple(each) for each in predicted]
    elif hasattr(model, "classes_"):
        answers["predicted"] = [str(each) for each in predicted]
    if isinstance(model, textsvm.CalibratedSVC):
        answers["probabilities"] = model.predict_proba(texts)
        for per_class in (False, True):
            answers[f"sets {per_class}"] = model.predict_set(texts, 0.8, per_class).tolist()
    return answers


def answers_of_c(model: Any, texts: Any, folder: Path) -> dict[str, Any]:
    plain = plain_model(model)
    exported = CModel(pack(plain))
    assert exported.error == 0
    if isinstance(texts, dict):
        joined = [zip(*(texts[name] for name in names), strict=True) for names in plain.joined]
        rows = zip(*(["\n".join(row) for row in own] for own in joined), strict=True)
        values = np.array([exported.decide_columns(list(row)) for row in rows])
        assert len(plain.joined) == 1 or exported.try_decide(b"text")[0] == 5
    else:
        values = np.array([exported.decide(text) for text in texts])
    answers: dict[str, Any] = {"decision": values}
    names = [exported.class_name(number) for number in range(exported.n_classes)]
    if isinstance(model, textsvm.OneClassSVM):
        answers["predicted"] = [2 * exported.predict(row) - 1 for row in values]
    elif isinstance(model, textsvm.MultilabelSVC):
        answers["predicted"] = [
            tuple(name for name, has in zip(names, exported.labels(row), strict=True) if has)
            for row in values
        ]
    elif hasattr(model, "classes_"):
        answers["predicted"] = [[*names, "unsure"][exported.predict(row)] for row in values]
    if isinstance(model, textsvm.CalibratedSVC):
        answers["probabilities"] = np.array([exported.probabilities(row) for row in values])
        for per_class in (False, True):
            sets = [exported.set_of(p, 0.8, per_class) for p in answers["probabilities"]]
            answers[f"sets {per_class}"] = sets
    return answers


def answers_of_javascript(model: Any, texts: Any, folder: Path) -> dict[str, Any]:
    """With the sums of contributions, and their number, where the model explains its values."""
    textsvm.export(model, folder / "js", to="js")
    if isinstance(texts, dict):
        columns = plain_model(model).columns
        texts = [dict(zip(columns, row, strict=True)) for row in zip(*map(texts.get, columns), strict=True)]
    results = in_node(folder / "js", texts)
    answers = {name: [each[name] for each in results] for name in ("decision", "explained", "lengths")}
    predicted = [each["predicted"] for each in results]
    if isinstance(model, textsvm.OneClassSVM):
        answers["predicted"] = [1 if each else -1 for each in predicted]
    elif isinstance(model, textsvm.MultilabelSVC):
        answers["predicted"] = [tuple(each) for each in predicted]
    elif hasattr(model, "classes_"):
        answers["predicted"] = predicted
    if isinstance(model, textsvm.CalibratedSVC):
        answers["probabilities"] = [each["probabilities"] for each in results]
        names = [str(label) for label in model.classes_]
        answers["sets False"] = [[name in each["set"] for name in names] for each in results]
    return answers


def answers_of_onnx(model: Any, texts: Any, folder: Path) -> dict[str, Any]:
    if isinstance(texts, dict):
        texts = {name: texts[name] for name in plain_model(model).columns}
    results = OnnxModel(model)(texts)
    answers = {"decision": results["decision"]}
    if isinstance(model, textsvm.OneClassSVM):
        answers["predicted"] = results["label"].tolist()
    elif isinstance(model, textsvm.MultilabelSVC):
        answers["predicted"] = [tuple(model.classes_[row]) for row in results["labels"]]
    elif hasattr(model, "classes_"):
        if model.classes_.dtype.kind == "i":  # only integers are no strings
            assert results["label"].tolist() == model.predict(texts).tolist()
        answers["predicted"] = list(map(str, results["label"].tolist()))
    if isinstance(model, textsvm.CalibratedSVC):
        answers["probabilities"] = results["probabilities"]
    return answers


#: Answers of a model in every form, and what a form needs.
FORMS = {
    "c": (answers_of_c, needs_gcc),
    "javascript": (answers_of_javascript, needs_node),
    "onnx": (answers_of_onnx, ()),
}


def decides_as_python(form: str, model: Any, texts: Any, folder: Path, error: float = 1e-9) -> dict[str, Any]:
    """Compare the answers of a form with those of Python; the answers."""
    actual, expected = FORMS[form][0](model, texts, folder), answers_of_python(model, texts)
    rows = texts if isinstance(texts, list) else list(zip(*texts.values(), strict=True))
    for text, value, right in zip(rows, actual["decision"], expected["decision"], strict=True):
        assert close(value, right, error), ascii(text)
    for name in actual.keys() & expected.keys() - {"decision"}:
        if name == "probabilities":
            assert close(actual[name], expected[name], error)
        else:
            assert actual[name] == expected[name]
    assert "predicted" in actual or "predicted" not in expected
    return actual


#: Characters with special rules of normalisation, case, composition, order or direction.
SPECIAL = (
    "ΣσςİıIiſẞßKÅŉǰΐΰևẖẗẘẙẚΆΈᾳᾼᾀᾴῌͅéèãüå" "각한글가각각ᆩ가" "ﬀﬁﬂﬃﬄﬅﬆ①②㎏㍿Ⅷ½ﷺﷻ" "ｈｅｌｌｏ，。！ﾊﾟｶﾞ"
    "̴̧̨̣́̀̂̈̇ͅ҉़्َِّ॒ۖा" "\u200d\u200c\u200b\u2060\ufeff\u00ad\u061c\u202e" "👩\u200d👩\u200d👧👍🏽🇩🇪𝔘𝕟𝐢"
    "\u0378\u0380\U000e0100\U0010fffd\ue000\uffff\U00020000\U0002f800豈" "क़ग़ড়גּשׁཀྵ྆าำཱིໍາ"
    "\u0300\u0301\u0345\u05b0\u0f39\u1dce\u3099\u309aかはガ゙" "ꙮѢѣⰀⰰꭰᏸᏰԱևႠⴀᲐა𐐀𐐨𞤀𞤢𝟘"
    "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000 "
    ".,;:!?'\"()[]{}<>@#$%^&*+-=_/\\|~`§¶†‡•…‰€£¥¢©®™°±×÷≠≤∞∑√∫"
    "กำ\u0e48ခំខ្ម\u17b5ᠠ\u180e\u180bⓐ🄰\u3164\uffa0\u115f\u034f\ufe0f❤\U000e0067\ufff3\U0001d173"
    "ÀÉÎÕÜàéîõüÿŸŽžŁłĐđØøÆæŒœÞþ" "0123456789٠١٢३४"
)  # fmt: skip


def random_text(rng: np.random.Generator, alphabet: str = "", most: int = 60) -> str:
    """A text of letters, special characters and arbitrary code points."""
    kind = rng.integers(4)
    points = []
    for _ in range(int(rng.integers(most))):
        source = rng.integers(10)
        if source < (6, 2, 4, 9)[kind]:
            letters = alphabet or "abcdefgh ABCDEFGH tuvw"
            points.append(letters[rng.integers(len(letters))])
        elif source < 9:
            points.append(SPECIAL[rng.integers(len(SPECIAL))])
        else:
            point = int(rng.integers(0x110000 if rng.integers(2) else 0x3000))
            points.append(chr(point if not 0xD800 <= point < 0xE000 else 0x0301))
    return "".join(points)


#: Default-ignorable code points, and letters before them: of scripts that need joiners, ZWSP or none of them.
IGNORABLE = "\xad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200c\u200d\u200e\u202e\u2060\u2066"
IGNORABLE += "\u3164\ufe0f\ufeff\uffa0\ufff3\U0001bca0\U0001d173\U000e0001\U000e0067\U000e0100\U000e0fff"
LETTERS = "abE .\u0301\u0345 д中ⓐ\u1100\u1161\u11a8가אا\u064bیکक्ষ\u09cdㅤก\u0e48ខ្မ\u1039ཀᠠ❤👩🏽🄰ﻼ"


def ignorable_texts(n: int) -> list[str]:
    """Texts with many default-ignorable code points."""
    rng = np.random.default_rng(0)
    pools = (IGNORABLE, "\u200b\u200c\u200d\u180e", LETTERS, "ab")
    pick = [pools[k] for k in rng.integers(4, size=n * 16)]
    chars = [pool[rng.integers(len(pool))] for pool in pick]
    return ["".join(chars[i * 16 : i * 16 + 1 + i % 16]) for i in range(n)]


def panel_rows(name: str, part: str, n: int) -> tuple[list[str], list[str]]:
    """Labels and texts of a set of the panel; skips without it."""
    root = Path(os.environ.get("TEXTSVM_DATA", "/nonexistent"))
    paths = [root / folder / f"{name}-{part}.tsv.xz" for folder in ("panel", "panel2")]
    path = next((each for each in paths if each.exists()), None)
    if path is None:
        pytest.skip(f"no data set {name}")
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t", 1) for _, line in zip(range(n), lines, strict=False)]
    return [row[0] for row in rows], [row[1] for row in rows]


def close(actual: Any, expected: Any, error: float = 1e-9) -> bool:
    """Equal up to a share of the values, or of 1 for values near 0."""
    return bool(np.all(np.abs(np.asarray(actual) - expected) <= error * np.maximum(1, np.abs(expected))))
