"""Write trained models as files of all export formats.

The HTML page needs no network, and its security policy allows no connection. The model file is in it as
base64; textsvm.mjs reads it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from importlib.resources import files
from itertools import accumulate
from pathlib import Path

from textsvm.apps.export.binary import name_of, pack
from textsvm.apps.export.plain import PlainModel, plain_model
from textsvm.errors import InputError
from textsvm.reporting.formatting import cut, safe, section
from textsvm.reporting.html import json_element
from textsvm.reporting.html import page as html_page
from textsvm.runtime.files import replacing

#: Formats with their files; a single name is the suffix of a file, several are the files of a folder.
FORMATS = {
    "c": ("textsvm.c", "textsvm.h", "model.bin"),
    "js": ("textsvm.mjs", "textsvm.d.ts", "model.bin"),
    "page": (".html",),
    "onnx": (".onnx",),
    "bin": (".bin",),
}
_SUFFIXES = {names[0]: to for to, names in FORMATS.items() if len(names) == 1}


def export(
    model: object,
    path: str | os.PathLike[str],
    to: str | None = None,
    force: bool = False,
    title: str | None = None,
) -> list[Path]:
    """Write a trained model for programs without Python.

    Parameters
    ----------
    model : SVC, CalibratedSVC, MultilabelSVC, SVR or OneClassSVM
        Fitted, on texts, with a kernel that has features (spectrum, words, gapped, bounded-gap) or a sum of
        these.
    path : path
        A folder for "c" and "js", which is created; a file for the other formats.
    to : {"c", "js", "page", "onnx", "bin"}, optional
        "c": C source and the model file. "js": a module for JavaScript, its types, a WebAssembly module and
        the model file. "page": an HTML page that classifies and explains texts as they are typed. "onnx": a
        graph that reads strings, for onnxruntime; needs the package onnx. "bin": the model file alone. By
        default the suffix of the path decides: .html, .onnx or .bin.
    force : bool
        Replace existing files.
    title : str, optional
        Title of a page.

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
    ['textsvm.c', 'textsvm.h', 'model.bin']
    """
    target = Path(path)
    to = check_target(target, to, force)
    return write_plain_model(plain_model(model), target, to, title)


def write_plain_model(plain: PlainModel, target: Path, to: str, title: str | None = None) -> list[Path]:
    """Write the files of a format and return their paths."""
    if to != "page" and title is not None:
        raise InputError(f"a title is for pages, not for the format {to}")
    contents: Sequence[Sequence[bytes | bytearray]]
    if to == "onnx":
        try:
            from textsvm.apps.export.onnx import onnx_of
        except ModuleNotFoundError as error:
            raise InputError("the format onnx needs the package onnx: pip install onnx") from error
        contents = [[onnx_of(plain)]]
    elif to == "page":
        contents = [page_of(plain, pack(plain), title)]
    else:
        model = pack(plain)
        contents = [[model if name.endswith(".bin") else source_of(name)] for name in FORMATS[to]]
    paths = paths_of(target, to)
    if len(paths) > 1:
        target.mkdir(exist_ok=True)
    for path, content in zip(paths, contents, strict=True):
        with replacing(path) as temporary, open(temporary, "wb") as stream:
            stream.writelines(content)
    return paths


def check_target(target: Path, to: str | None, force: bool) -> str:
    """The format; InputError if it is unknown or a file exists."""
    suffix, suffixes = target.suffix.lower(), ", ".join(_SUFFIXES)
    to = _SUFFIXES.get(suffix) if to is None else to
    if to is None:
        raise InputError(f"give the format (--to), since the suffix of {target} is not one of {suffixes}")
    if to not in FORMATS:
        raise InputError(f"the export format {to!r} is not one of {', '.join(FORMATS)}")
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
    return [target] if len(names) == 1 else [target / name for name in names]


def source_of(name: str) -> bytes:
    """A source file; textsvm.mjs with the WebAssembly module in it."""
    source = (files(__package__) / name).read_bytes()
    if name != "textsvm.mjs":
        return source
    module = base64.b64encode((files(__package__) / "textsvm.wasm").read_bytes())
    return source.replace(b'const WASM = "";', b'const WASM = "' + module + b'";')


# The page

#: Symbols of the names of classes in the lead and, if there are not more, in the title.
MOST_SHOWN, MOST_TITLE = 80, 20
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


def page_of(plain: PlainModel, content: bytes | bytearray, title: str | None = None) -> list[bytes]:
    """Parts of the page; `content` is the model file."""
    classes = [*map(name_of, plain.classes or [])]
    shown = max(1, sum(total <= MOST_SHOWN for total in accumulate(len(name) + 2 for name in classes)))
    names = ", ".join(cut(name, MOST_SHOWN) for name in classes[:shown])
    names += f" and {len(classes) - shown} others" if len(classes) > shown else ""
    body = [source_of("page.html").decode(), _limits(plain)]
    data = '<script type="application/octet-stream" id="model">\0</script>'
    data += json_element("facts", {**plain.about["training"], "example": _example(plain)})
    script = (source_of("textsvm.mjs") + source_of("page.js")).decode().replace("\nexport ", "\n")
    question = f"{' or '.join(classes)}?"
    title = title or (question if classes and len(question) <= MOST_TITLE else "Try the model")
    page = html_page(title, _LEADS[plain.task].format(names), body, data, script=script)
    before, mark, after = page.partition('"model">\0')
    return [before.encode(), mark[:-1].encode(), base64.b64encode(content), after.encode()]


def _example(plain: PlainModel) -> list[str]:
    """A text of the heaviest words or strings of the last class; none for kernels without a list of them."""
    tops = [top for top in plain.top if top.label == plain.top[-1].label and top.features]
    features = next((top.features for top in tops if top.kind == "words"), tops[0].features if tops else [])
    words = [text for feature in features if len(text := feature.text.partition(">=")[0].strip()) > 2]
    return [" ".join(dict.fromkeys(words[:8]))] if words else []


def _limits(plain: PlainModel) -> str:
    """What the model was trained on, and its accuracy."""
    characters = [term for term in plain.terms if term.view.tokens == "characters"]
    lengths = {table.codes.shape[1] for term in characters for table in term.tables}
    hint = ""
    if (plain.info.get("drift") or {}).get("features") is not None and 4 in lengths:
        hint = "The page warns if many strings of 4 characters are new to it. "
    note = (
        "It knows nothing but the texts it was trained on: on texts of another kind it can be wrong with "
        f"confidence. {hint}The text stays in this page: the page cannot send anything."
    )
    if not (plain.about["training"]["holdout"] or plain.info.get("estimate")):
        note += " Its accuracy on other texts was not recorded when it was trained."
    table = "".join(f"<tr><th>{safe(name)}</th><td>{safe(value)}</td></tr>" for name, value in _facts(plain))
    parts = f'<p class="note">{note}</p>', f'<table class="facts"><tbody>{table}</tbody></table>'
    return section("Limits of this model", *parts)


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
