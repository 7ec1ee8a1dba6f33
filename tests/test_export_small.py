"""Smaller model files: size, agreement of their evaluation with C and JavaScript, loss, and the command."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from command import run
from exported import CModel, close, in_node, needs_gcc, needs_node
from test_export import HOSTILE, KERNELS, TABLE, fitted

import textsvm
from textsvm import InputError, Spectrum
from textsvm.apps.export import small
from textsvm.apps.export.binary import pack, packed_tables
from textsvm.apps.export.plain import plain_model

pytestmark = pytest.mark.filterwarnings("ignore:the solver stopped")
WORDS = ["good", "bad", "film", "actor", "plot", "dull", "great", "the", "a", "not", "very", "scene", "music"]


@lru_cache
def corpus(n: int = 400) -> tuple[list[str], list[str]]:
    """Texts of random words and letters, whose class is decided by some of the words."""
    rng = np.random.default_rng(1)
    texts = []
    for _ in range(n):
        letters = "".join(rng.choice(list("abcdefghijklmnop"), 8))
        texts.append(" ".join([*rng.choice(WORDS, 12), letters, letters[::-1]]))
    return texts, [
        "pos" if t.count("good") + t.count("great") > t.count("bad") + t.count("dull") else "neg"
        for t in texts
    ]


@lru_cache
def model() -> Any:
    return textsvm.SVC().fit(*corpus())


def encoded(machine: Any, texts: list[str]) -> Any:
    return machine.settings.source.encode_test(texts, machine.model_.support)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_evaluation_of_the_whole_model_is_predict(kernel):
    machine = fitted(kernel)
    texts = [text for text in HOSTILE if len(text.split()) > 3]
    plain = plain_model(machine)
    values = small.Sample(plain, encoded(machine, texts)).values(packed_tables(plain))
    scores = machine.model_.rule.scores(values)
    assert close(scores, machine.decision_function(texts))


@needs_gcc
@pytest.mark.parametrize("types", small.CHOICES, ids=str)
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_evaluation_of_reduced_tables_is_c(types, share):
    texts, plain = [*corpus()[0][:50], "unknown letters", "good good good"], plain_model(model())
    whole, sample = packed_tables(plain), small.Sample(plain, encoded(model(), texts))
    worths = [sample.worths(k, tables) for k, tables in enumerate(whole)]
    tables = small.smaller(plain, whole, worths, types, int(share * len(pack(plain))))
    tables = [sample.with_norms(k, *pair) for k, pair in enumerate(zip(whole, tables, strict=True))]
    exported, values = CModel(small.write(plain, tables)), sample.values(tables)
    assert exported.error == 0
    assert close([exported.decide(text) for text in texts], values)


@needs_gcc
def test_sizes_and_loss():
    texts, labels = corpus()
    accuracy, errors = np.mean(model().predict(texts) == labels), []
    for size in (220_000, 300_000, 400_000):
        reduction = small.reduced_model(model(), plain_model(model()), size, texts)
        exported = CModel(reduction.content)
        assert (
            size - 3000 < len(reduction.content) <= size or reduction.n_strings[0] == reduction.n_strings[1]
        )
        values = np.array([exported.decide(text) for text in texts])
        assert close(values, reduction.values[1])
        assert close(model().decision_function(texts), reduction.values[0][:, 0])
        errors.append(reduction.difference[0])
        predicted = [exported.class_name(exported.predict(row)) for row in values]
        before, after = small.accuracy_before_and_after(model(), reduction, labels)
        assert (before, after) == (accuracy, np.mean(np.array(predicted) == labels))
    assert errors == sorted(errors, reverse=True)
    assert after > accuracy - 0.01
    assert errors[-1] < 0.02


@needs_gcc
def test_a_smaller_model_of_columns():
    model = fitted("default of columns")
    plain = plain_model(model)
    reduction = small.reduced_model(model, plain, len(pack(plain)) // 2, TABLE)
    exported, rows = CModel(reduction.content), zip(*TABLE.values(), strict=True)
    values = np.array([exported.decide_columns(list(row)) for row in rows])
    most = np.abs(values - model.decision_function(TABLE)).max()
    assert most == pytest.approx(reduction.difference[1], rel=1e-3)


@needs_node
def test_javascript_reads_the_smaller_file(tmp_path):
    texts = corpus()[0][:20]
    textsvm.export(model(), tmp_path / "js", to="js", max_size="250kB", held_out=texts)
    content = (tmp_path / "js" / "model.bin").read_bytes()
    assert len(content) <= 250_000
    expected = small.reduced_model(model(), plain_model(model()), 250_000, texts).values[1]
    assert close([each["decision"] for each in in_node(tmp_path / "js", texts)], expected)


def sampled(training: bool) -> Any:
    """A sample of texts whose model has a kernel of 4 letters that is not normalised."""
    texts, labels = corpus()
    model = textsvm.SVC(Spectrum(4, "count", normalised=False)).fit(texts, labels)
    plain = plain_model(model)
    return small.Sample(plain, encoded(model, texts), training), packed_tables(plain)


def test_strings_of_few_training_texts_count_as_unknown_in_some_of_them():
    strings = sampled(training=True)[0].strings[0][0]
    n_with = np.bincount(strings.amounts.indices)[strings.amounts.indices]
    assert not sampled(training=False)[0].strings[0][0].hidden.any()
    for n in (1, 2, 3):
        share = strings.hidden[n_with == n].mean()
        assert abs(share - 0.7 / n) < 4 * np.sqrt(0.25 / (n_with == n).sum()), n
    assert strings.hidden[n_with > 100].mean() < 0.01


def test_worth_counts_a_share_of_a_training_text_less():
    (sample, tables), (other, _) = sampled(training=True), sampled(training=False)
    (worths, units), (others, _) = sample.worths(0, tables[0])[0], other.worths(0, tables[0])[0]
    strings = sample.strings[0][0]
    n_with = np.bincount(strings.amounts.indices)[np.searchsorted(strings.keys, tables[0][0].tags)]
    assert (n_with == 1).sum() > 5
    assert np.allclose(worths * (n_with + 0.3), others * (n_with - 0.7))
    assert (units > 0).all()


def test_a_whole_model_that_fits_is_unchanged():
    plain = plain_model(fitted("default"))
    reduction = small.reduced_model(fitted("default"), plain, 100_000_000)
    assert reduction.content == pack(plain)
    assert reduction.bits == (64, 64)
    assert reduction.difference == (0, 0)


def test_sizes_as_text():
    sizes = {
        "2MB": 2_000_000,
        "500kB": 500_000,
        "2 MiB": 2 << 20,
        "1.5kib": 1536,
        "700": 700,
        700: 700,
        "9b": 9,
    }
    assert {size: small.parse_size(size) for size in sizes} == sizes
    for wrong in ("", "0", "-1", "2 XB", "MB", 0, True, -3, "1e6"):
        with pytest.raises(InputError, match="must be a positive number of bytes"):
            small.parse_size(wrong)


def test_errors(tmp_path):
    plain = plain_model(fitted("default"))
    with pytest.raises(InputError, match="does not fit into 1,000 bytes") as raised:
        small.reduced_model(fitted("default"), plain, 1000)
    least = int(re.search(r"at least ([\d,]+)", str(raised.value))[1].replace(",", ""))
    assert len(small.reduced_model(fitted("default"), plain, least).content) <= least
    with pytest.raises(InputError, match="does not fit"):
        small.reduced_model(fitted("default"), plain, least - 1)
    with pytest.raises(InputError, match="cannot be made smaller as onnx"):
        textsvm.export(fitted("default"), tmp_path / "m.onnx", max_size="2MB")
    textsvm.save(textsvm.SVC(Spectrum(2)).fit(["abc", "bcd"], [0, 1]), tmp_path / "model", texts=False)
    with pytest.raises(InputError, match="no texts by which to choose"):
        textsvm.export(textsvm.load(tmp_path / "model"), tmp_path / "m.bin", max_size="170kB")
    assert not (tmp_path / "m.bin").exists()


@pytest.mark.slow
def test_command(tmp_path):
    texts, labels = corpus()
    textsvm.save(model(), tmp_path / "model")
    rows = "".join(f"{label},{text}\n" for label, text in zip(labels, texts, strict=True))
    (tmp_path / "held-out.csv").write_text("label,text\n" + rows)
    out = tmp_path / "small.bin"
    arguments = ["export", str(tmp_path / "model"), "-o", str(out), "--max-size", "250kB"]
    done = run(*arguments, "--texts", str(tmp_path / "held-out.csv"))
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size <= 250_000
    assert b"accuracy on the texts: " in done.stdout
    done = run(*arguments, "--force", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["strings"][1] < facts["strings"][0]
    assert "accuracy" not in facts
    assert (
        run("export", str(tmp_path / "model"), "-o", str(out), "--texts", str(tmp_path / "model")).returncode
        == 2
    )
    done = run(*arguments[:-1], "100", "--force")
    assert done.returncode == 1
    assert b"does not fit into 100 bytes" in done.stderr


def repeating_table() -> Any:
    """The table of an intersection, with strings of up to 30 rows."""
    rng = np.random.default_rng(0)
    texts = [
        " ".join(f"{word} " * rng.integers(1, 9) for word in rng.permutation(WORDS)[:5]) for _ in range(40)
    ]
    model = textsvm.SVC(Spectrum((1, 2), "intersection"), device="cpu")
    plain = plain_model(model.fit(texts, [text < "g" for text in texts]))
    return packed_tables(plain)[0][0]


def order_of(table: Any) -> tuple[Any, Any]:
    order = small.StringRows(table)
    return order.rows, order.firsts


def test_worth_of_a_row_is_the_error_that_it_takes_away():
    table, rng = repeating_table(), np.random.default_rng(1)
    amounts = rng.random(len(table.weights))
    rows, firsts = order_of(table)
    gains, w, n_repeated = small._gains(table, amounts), table.weights[:, 0], 0
    for begin, end in pairwise(firsts):
        here = rows[begin:end]
        kept = [0.0, *w[here]]
        error = [
            sum(amounts[j] * (w[j] - kept[i]) ** 2 for k, j in enumerate(here) if k >= i)
            for i in range(len(here) + 1)
        ]
        assert np.allclose(gains[begin:end], -np.diff(error), rtol=1e-9, atol=1e-9 * amounts.sum())
        n_repeated += len(here) > 2
    assert n_repeated > 10


def test_density_keeps_rows_behind_their_predecessors():
    table, rng = repeating_table(), np.random.default_rng(2)
    _, firsts = order_of(table)
    worth, cost = rng.normal(size=firsts[-1]), rng.uniform(1, 9, firsts[-1])
    density = small._density(worth, cost, table)
    for begin, end in pairwise(firsts):
        assert (np.diff(density[begin:end]) <= 0).all()
        means = np.cumsum(worth[begin:end]) / np.cumsum(cost[begin:end])
        assert np.isclose(density[begin], means.max())


def test_texts_that_repeat_strings_need_few_rows():
    table = repeating_table()
    n_rows = len(table.weights) - 1
    kept = np.zeros(n_rows, bool)
    _, firsts = order_of(table)
    kept[firsts[:-1]] = True
    part = small._part(table, kept, None, (np.dtype("int16"), np.dtype("uint32")))
    assert part.more is None
    assert len(part.weights) == len(table.tags) + 1
    kept[firsts[:-1][np.diff(firsts) > 1] + 1] = True
    part = small._part(table, kept, None, (np.dtype("int16"), np.dtype("uint32")))
    assert np.diff(part.more).max() == 1
    assert np.allclose(
        part.weights * part.scales, table.weights[np.append(*_split(table, kept))], atol=part.scales
    )


def _split(table: Any, kept: Any) -> tuple[Any, Any]:
    rows, _ = order_of(table)
    chosen = rows[kept]
    return np.append(chosen[chosen < len(table.tags)], len(table.tags)), chosen[chosen > len(table.tags)]
