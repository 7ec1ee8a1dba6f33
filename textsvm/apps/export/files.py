"""Write trained models as files of all export formats.

The HTML page needs no network, and its security policy allows no connection. The model file is in it as
base64; textsvm.mjs reads it.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from textsvm.apps.export import small
from textsvm.apps.export.binary import name_of, pack
from textsvm.apps.export.plain import PlainModel, encoded_texts, plain_model
from textsvm.apps.export.small import Reduction
from textsvm.arrays import Json
from textsvm.errors import InputError
from textsvm.kernels.contract import FeatureTable, FeatureTerm, PairTerm
from textsvm.reporting.formatting import cut, safe, visible
from textsvm.reporting.html import json_element
from textsvm.reporting.html import page as html_page
from textsvm.runtime.files import replacing
from textsvm.runtime.plain_json import to_json

#: Formats with their files; a single name is the suffix of a file, several are the files of a folder.
FORMATS = {
    "c": ("textsvm.c", "textsvm.h", "model.bin"),
    "js": ("textsvm.mjs", "textsvm.d.ts", "model.bin"),
    "page": (".html",),
    "json": (".json",),
    "onnx": (".onnx",),
    "bin": (".bin",),
}
_SUFFIXES = {names[0]: to for to, names in FORMATS.items() if len(names) == 1}
ARRAY = "textsvm_model.c"
#: Formats with the binary model file, which can be made smaller.
SIZED = ("c", "js", "page", "bin")
#: Largest model that is also written as an array in C.
MOST_ARRAY = 4 << 20


class PageKeywords(TypedDict, total=False):
    """The options of a page that `export` describes."""

    title: str | None
    example: str | Sequence[str] | None


def export(
    model: Any,
    path: str | os.PathLike[str],
    to: str | None = None,
    force: bool = False,
    max_size: int | str | None = None,
    held_out: Any = None,
    **page: Unpack[PageKeywords],
) -> list[Path]:
    """Write a trained model for programs without Python.

    Parameters
    ----------
    model : SVC, CalibratedSVC, MultilabelSVC, SVR or OneClassSVM
        Fitted, on texts, with a kernel that has features (spectrum, words, gapped, bounded-gap), a kernel of
        pairs (edit distance, gap-weighted) with at most 4,000 support vectors, or a sum of these.
    path : path
        A folder for "c" and "js", which is created; a file for the other formats.
    to : {"c", "js", "page", "json", "onnx", "bin"}, optional
        "c": C source and the model file, for models up to 4 MiB also as an array in C. "js": a module for
        JavaScript, its types, a WebAssembly module and the model file. "page": an HTML page that classifies
        and explains texts as they are typed. "json": all features and weights as text. "onnx": a graph that
        reads strings, for onnxruntime; needs the package onnx. "bin": the model file alone. By default the
        suffix of the path decides: .html, .json, .onnx or .bin.
    force : bool
        Replace existing files.
    max_size : int or str, optional
        Most bytes of the model file, such as 500000, "500kB", "2MB" or "2MiB": strings with little effect are
        left out, and weights get 8 or 16 bits. Of a page the model inside counts, and by default it is made
        smaller if the page had more than 2 MB; the page states the loss.
    held_out : list of str, or table of texts, optional
        Texts like those that the exported model will decide, by which `max_size` chooses; by default the
        support vectors.
    **page
        title : str
            Title of a page.
        example : str, or list of str for each column
            Text of the button "Example" of a page; by default the heaviest words or strings of a class.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    InputError
        If the model cannot be exported, the format is unknown, or a file exists. Nothing is written then.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, export
    >>> model = SVC(Spectrum(3)).fit(["win cash now", "lunch at noon"], ["spam", "ham"])
    >>> [path.name for path in export(model, "spam-in-c", to="c")]
    ['textsvm.c', 'textsvm.h', 'model.bin', 'textsvm_model.c']
    """
    target = Path(path)
    to = check_target(target, to, force, max_size)
    plain = plain_model(model, smaller=to == "page" or max_size is not None)
    reduction = reduced(model, plain, to, max_size, () if held_out is None else held_out)
    return write_plain_model(plain, target, to, reduction, **page)


def reduced(
    model: Any, plain: PlainModel, to: str, max_size: int | str | None, held_out: Any, progress: Any = None
) -> Reduction | None:
    """The model in at most `max_size` bytes, of a page by default in `PAGE_BYTES`; None if it is whole."""
    if max_size is None:
        texts = len(held_out) or len(encoded_texts(model, ()))
        if to != "page" or plain.has_pairs or not texts or len(pack(plain)) <= PAGE_BYTES:
            return None
        max_size = PAGE_BYTES
    return small.reduced_model(model, plain, max_size, held_out, progress)


def write_plain_model(
    plain: PlainModel, target: Path, to: str, reduction: Reduction | None = None, **page: Unpack[PageKeywords]
) -> list[Path]:
    """Write the files of a format, of the whole or a smaller model; title and example of a page."""
    title, example = page.get("title"), page.get("example")
    examples = [example] if isinstance(example, str) else example
    if to != "page" and not title is example is None:
        raise InputError(f"a title and an example are for pages, not for the format {to}")
    n_fields = max(1, len(plain.columns))
    if examples is not None and len(examples) > n_fields:
        raise InputError(f"the page has {n_fields} fields, and there are {len(examples)} examples")
    content = b"" if to not in SIZED else pack(plain) if reduction is None else reduction.content
    contents = dict(_contents(plain, to, content))
    if to == "page":
        contents[".html"] = page_of(plain, content, reduction, title, examples)
    if len(FORMATS[to]) == 1:
        _write(target, next(iter(contents.values())))
        return [target]
    target.mkdir(exist_ok=True)
    if to == "c" and ARRAY not in contents:  # that of an older model
        (target / ARRAY).unlink(missing_ok=True)
    for name, data in contents.items():
        _write(target / name, data)
    return [target / name for name in contents]


def check_target(target: Path, to: str | None, force: bool, max_size: int | str | None = None) -> str:
    """The format; InputError if it is unknown or has no `max_size`, or a file exists."""
    suffix, suffixes = target.suffix.lower(), ", ".join(_SUFFIXES)
    to = _SUFFIXES.get(suffix) if to is None else to
    if to is None:
        raise InputError(f"give the format (--to), since the suffix of {target} is not one of {suffixes}")
    if to not in FORMATS:
        raise InputError(f"the export format {to!r} is not one of {', '.join(FORMATS)}")
    if max_size is not None and small.parse_size(max_size) and to not in SIZED:
        raise InputError(f"a model cannot be made smaller as {to}; {', '.join(SIZED)} take a largest size")
    if not target.absolute().parent.is_dir():
        raise InputError(f"the folder {target.absolute().parent} does not exist; create it first")
    single = len(FORMATS[to]) == 1
    needed = f"{FORMATS[to][0]} file" if single else "folder"
    if target.exists() and target.is_dir() == single:
        raise InputError(f"{target} is a {'folder' if single else 'file'}; name a {needed}")
    if _SUFFIXES.get(suffix, to) != to and not target.is_dir():
        raise InputError(f"{target} ends in {suffix}, but the format is {to}; name a {needed}")
    if not force and (existing := [path for path in paths_of(target, to) if path.exists()]):
        raise InputError(f"{existing[0]} exists; name another path, or replace it (--force)")
    return to


def paths_of(target: Path, to: str) -> list[Path]:
    """All files that a format may have."""
    names = FORMATS[to]
    return [target] if len(names) == 1 else [target / name for name in (*names, *[ARRAY] * (to == "c"))]


def _contents(plain: PlainModel, to: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    names = () if to == "page" else FORMATS[to]
    if to == "json":
        yield names[0], json_of(plain)
        return
    if to == "onnx":
        try:
            from textsvm.apps.export.onnx import onnx_of
        except ModuleNotFoundError as error:
            raise InputError("the format onnx needs the package onnx: pip install onnx") from error
        yield names[0], onnx_of(plain)
        return
    for name in names:
        yield name, content if name.endswith(".bin") else source_of(name)
    if to == "c" and len(content) <= MOST_ARRAY:
        yield ARRAY, array_of(content)


def source_of(name: str) -> bytes:
    """A source file; textsvm.mjs with the WebAssembly module in it."""
    source = (files(__package__) / name).read_bytes()
    if name != "textsvm.mjs":
        return source
    module = base64.b64encode((files(__package__) / "textsvm.wasm").read_bytes())
    return source.replace(b'const WASM = "";', b'const WASM = "' + module + b'";')


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def array_of(content: bytes) -> bytes:
    """C source with the model file as an array; little-endian, as the file."""
    words = [f"0x{word:x}u" for word in np.frombuffer(content, "<u4")]
    lines = [",".join(words[first : first + 12]) for first in range(0, len(words), 12)]
    return (
        "/* A model for textsvm.c: textsvm_global_open(textsvm_model(), textsvm_model_bytes(), n). */\n"
        "#include <stddef.h>\n#include <stdint.h>\n\n"
        "const void *textsvm_model(void);\nsize_t textsvm_model_bytes(void);\n\n"
        f"static const union {{ uint32_t words[{len(words)}]; uint64_t aligned; }} model = {{{{\n"
        + ",\n".join(lines)
        + "\n}};\n\nconst void *textsvm_model(void) { return model.words; }\n"
        "size_t textsvm_model_bytes(void) { return sizeof model.words; }\n"
    ).encode()


def json_of(plain: PlainModel) -> bytes:
    """The model as JSON, see docs/export_format.md."""
    values = {
        "format": "textsvm model",
        "version": 2,
        **plain.about,
        "text": vars(plain.text),
        **_attributes(plain, "combine", "biases", "thresholds", "calibration", "reject"),
        "prediction_sets": None if plain.conformity is None else plain.conformity.state(),
        "terms": [_term_json(term) for term in plain.terms],
    }
    return json.dumps(to_json(values), separators=(",", ":")).encode() + b"\n"


def _attributes(record: Any, *names: str) -> Json:
    """Attributes that are written as they are, by name."""
    return {name: vars(record)[name] for name in names}


def _term_json(term: FeatureTerm | PairTerm) -> Json:
    alphabet = term.alphabet.tolist()
    symbols = [*map(str if term.alphabet.dtype == object else chr, alphabet)]
    rows: Any = [] if term.featureless_values is None else term.featureless_values
    pairs = zip(term.featureless, rows, strict=True)
    featureless = [{"symbols": [symbols[k] for k in codes.tolist()], "values": row} for codes, row in pairs]
    values = {
        "kernel": term.kernel,
        **_attributes(term.view, "column", "tokens", "keep_case"),
        **_attributes(term, "normalised", "scale"),
        "featureless": featureless,
    }
    if isinstance(term, FeatureTerm):
        values |= _attributes(term, "count", "unknown", "both_strands", "mean")
        if term.view.encoder is not None:
            values["tokenizer"] = json.loads(term.view.encoder.tokenizer)
        return values | {"tables": [_table_json(table, symbols) for table in term.tables]}
    texts = np.split(term.support.codes, term.support.offsets[1:-1]) if len(term.support) else []
    values |= _attributes(term, "recurrence", "rate", "relative", "levels", "shortest", "roots")
    values["support_vectors"] = [[symbols[code] for code in text.tolist()] for text in texts]
    return values | {"coefficients": term.coef}


def _table_json(table: FeatureTable, symbols: list[str]) -> Json:
    weights, ends = table.weights.tolist(), np.cumsum(table.rows).tolist()
    return {
        **_attributes(table, "offsets", "span", "values", "times", "factors"),
        "strings": [[symbols[code] for code in codes] for codes in table.codes.tolist()],
        "weights": [weights[end - rows : end] for end, rows in zip(ends, table.rows.tolist(), strict=True)],
    }


# The page

#: Bytes of a model in a page of less than 2 MB.
PAGE_BYTES = 1_350_000
#: Symbols of the names of classes in the lead and, if there are not more, in the title.
MOST_SHOWN, MOST_TITLE = 80, 20
#: Classes whose heaviest features are listed.
MOST_CLASSES = 12
#: Features of each kind that are listed.
MOST_FEATURES = 12
#: Symbols of a feature that are shown.
SHOWN = 40
#: Measures on texts held out of training, as the model records them.
MEASURES = {
    "accuracy": "Accuracy", "macro_f1": "Macro-F1", "micro_f1": "Micro-F1",
    "rmse": "Root mean squared error", "mae": "Mean absolute error",
}  # fmt: skip
_LEADS = {
    "classes": "Type or paste a text: the model decides between {}.",
    "labels": "Type or paste a text: the model gives it any of the labels {}.",
    "number": "Type or paste a text: the model predicts a number.",
    "novelty": "Type or paste a text: the model says whether it is of the kind it was trained on.",
}


def page_of(
    plain: PlainModel, content: bytes, reduction: Reduction | None = None,
    title: str | None = None, examples: Sequence[str] | None = None,
) -> bytes:  # fmt: skip
    """The page; `content` is the model file."""
    classes = [*map(name_of, plain.classes or [])]
    shown = max(1, sum(total <= MOST_SHOWN for total in accumulate(len(name) + 2 for name in classes)))
    names = ", ".join(cut(name, MOST_SHOWN) for name in classes[:shown])
    names += f" and {len(classes) - shown} others" if len(classes) > shown else ""
    body = [source_of("page.html").decode(), _features(plain), _limits(plain, reduction)]
    data = f'<script type="application/octet-stream" id="model">{base64.b64encode(content).decode()}</script>'
    examples = _example(plain) if examples is None else examples
    data += json_element("facts", {**plain.about["training"], "example": list(examples)})
    script = (source_of("textsvm.mjs") + source_of("page.js")).decode().replace("\nexport ", "\n")
    question = f"{' or '.join(classes)}?"
    title = title or (question if classes and len(question) <= MOST_TITLE else "Try the model")
    return html_page(title, _LEADS[plain.task].format(names), body, data, script=script).encode()


def _example(plain: PlainModel) -> list[str]:
    """A text of the heaviest words or strings of the last class; none for kernels without a list of them."""
    tops = [top for top in plain.top if top.label == plain.top[-1].label and top.features]
    features = next((top.features for top in tops if top.kind == "words"), tops[0].features if tops else [])
    words = [text for feature in features if len(text := feature.text.partition(">=")[0].strip()) > 2]
    return [" ".join(dict.fromkeys(words[:8]))] if words else []


def _features(plain: PlainModel) -> str:
    """The heaviest features of the first classes."""
    if not plain.top:
        return ""
    labels = list(dict.fromkeys(top.label for top in plain.top))
    parts = []
    for label in labels[:MOST_CLASSES]:
        lists = ""
        for top in (top for top in plain.top if top.label == label and top.features):
            items = "".join(
                f"<li><code>{safe(visible(cut(feature.text, SHOWN)))}</code> {feature.weight:.2f}</li>"
                for feature in top.features[:MOST_FEATURES]
            )
            lists += f'<p class="kind">{safe(top.kind)}</p><ul class="substrings">{items}</ul>'
        parts.append(f"<section><h2>{safe(label)}</h2>{lists}</section>")
    n = len(plain.classes or labels)
    more = f" The first {MOST_CLASSES} of {n:,} classes." if n > MOST_CLASSES else ""
    return (
        f'<section><h2>Features with the largest weights</h2><p class="note">They add most to the decision '
        f"value of a class. ␣ is a space; th&gt;=3 counts from the third occurrence on.{more}</p></section>"
        f'<div class="grid">{"".join(parts)}</div>'
    )


def _limits(plain: PlainModel, reduction: Reduction | None) -> str:
    """What the model was trained on, and its accuracy."""
    characters = [term for term in plain.feature_terms if term.view.tokens == "characters"]
    lengths = {table.codes.shape[1] for term in characters for table in term.tables}
    hint = ""
    if plain.has_pairs:
        hint = "It compares whole texts, so the page cannot say which letters decide. "
    elif (plain.info.get("drift") or {}).get("features") is not None and 4 in lengths:
        hint = "The page warns if many strings of 4 characters are new to it. "
    note = (
        "It knows nothing but the texts it was trained on: on texts of another kind it can be wrong with "
        f"confidence. {hint}The text stays in this page: the page cannot send anything."
    )
    if not (plain.about["training"]["holdout"] or plain.info.get("estimate")):
        note += " Its accuracy on other texts was not recorded when it was trained."
    facts = [*_facts(plain), *([("Smaller than the model", reduction.loss)] if reduction else [])]
    table = "".join(f"<tr><th>{safe(name)}</th><td>{safe(value)}</td></tr>" for name, value in facts)
    return (
        f'<section><h2>Limits of this model</h2><p class="note">{note}</p>'
        f'<table class="facts"><tbody>{table}</tbody></table></section>'
    )


def _facts(plain: PlainModel) -> list[tuple[str, str]]:
    facts = plain.about["training"]
    rows = [("Kernel", plain.kernel)]
    if n := facts.get("n_train"):
        rows.append(("Training texts", f"{n:,}"))
    if classes := facts.get("classes"):
        rows.append(("By class", ", ".join(f"{row['class']}: {row['documents']:,}" for row in classes)))
    estimate = facts.get("estimate") or {}
    where = f"documents held out of training ({estimate.get('held_out')})"
    for measures, texts in ((facts["holdout"], "held-out texts"), (estimate, where)):
        of = f" ({measures['n']:,} texts)" if "n" in measures else ""
        for name, title in MEASURES.items():
            if (value := measures.get(name)) is not None:
                figure = f"{value:.4g}" if name in ("rmse", "mae") else f"{100 * value:.1f} %"
                rows.append((f"{title} on {texts}", figure + of))
    return rows
