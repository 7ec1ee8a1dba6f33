"""Payloads, and pages of reports that have them wherever something of documents, labels or files is shown."""

# ruff: noqa: E501

import importlib
import re
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from test_reporting import corpus, made
from test_reporting_sections import everything

from textsvm import SVC, CalibratedSVC, Spectrum
from textsvm.evaluation.class_map import class_map
from textsvm.evaluation.comparison import score_classifier
from textsvm.evaluation.explanation import Explanation, KernelShare, Similar, Substring
from textsvm.evaluation.judge import judge
from textsvm.evaluation.results import evaluate
from textsvm.kernels.attribution import AttributionMethod
from textsvm.model.top_features import Feature, TopFeatures
from textsvm.reporting.report import Mistake, Report, make_report
from textsvm.selection.doubts import Doubt

#: What a payload does if it runs.
RUN = "window.owned=1"
HANDLERS = [
    "onload", "onerror", "onclick", "onmouseover", "onfocus", "onblur", "onchange", "oninput", "onsubmit",
    "ontoggle", "onanimationstart", "onanimationend", "ontransitionend", "onpointerover", "onwheel",
    "onscroll", "onkeydown", "onbegin", "onend", "onrepeat", "onpageshow", "onhashchange", "onmessage",
    "onresize", "onbeforeprint", "onpaste",
]  # fmt: skip
TAGS = [
    "script", "img", "iframe", "object", "embed", "video", "audio", "link", "base", "meta", "form", "input",
    "button", "textarea", "select", "option", "details", "marquee", "math", "svg", "style", "template",
    "noscript", "title", "table", "body", "html", "head", "frameset", "applet", "plaintext", "xmp",
    "isindex", "dialog", "portal", "a",
]  # fmt: skip
ADDRESSES = (
    "javascript:window.owned=1", "data:text/html,<script>window.owned=1</script>", "//evil.example/x",
    "http://evil.example/", "vbscript:msgbox(1)", 'java\nscript:window.owned=1',
    "&#106;avascript:window.owned=1", "blob:x", "file:///etc/passwd",
    "data:image/svg+xml,<svg onload=window.owned=1>", "filesystem:x", "JaVaScRiPt:window.owned=1",
    '\x01javascript:x',
)  # fmt: skip
ENDS = (
    "", "</", '"', "'", ">", "-->", "]]>", "</title>", "</script>", "</style>", "</textarea>", "</svg>",
    "</div></main>",
)  # fmt: skip
#: Forms in which an address or CSS would be asked for.
CALLS = (
    '<a href="{}">x</a>', '<img src="{}">', "<iframe src='{}'>", "<base href={}>", '<meta http-equiv="refresh" content="0;url={}">',
    "<link rel=stylesheet href={}>", "<form action={}><input type=submit>", "<svg><use href='{}'/></svg>",
    "<style>@import '{}';*{{background:url({})}}</style>", "<math href='{}'>x</math>",
)  # fmt: skip
ODD = (
    "</script><script>window.owned=1</script>", '"};window.owned=1;//', "\\u003cscript>window.owned=1</script>", "${window.owned=1}",
    "$title $body ${script} $$", "{{constructor.constructor('window.owned=1')()}}", "<%= 1 %>", "{% x %}", "%{1}", "#{1}",
    "<!--<script>", "<![CDATA[<script>window.owned=1</script>]]>", "<svg><script>window.owned=1</script></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=window.owned=1&gt;'>",
    "<svg><animate onbegin=window.owned=1 attributeName=x dur=1s>", "<svg><set attributeName=href to=javascript:x>",
    "<svg><foreignObject><iframe srcdoc='<script>parent.owned=1</script>'>", "<xss style=animation-name:x onanimationstart=window.owned=1>",
    "\u202e<script>\u202cwindow.owned=1</script>", "\u2066<b>\u2069", "\u2028window.owned=1", "\x00<script>", "\x1b]0;owned\x07", "\ud800<b>",
    "\ufeff<script>window.owned=1</script>", "+ADw-script+AD4-window.owned=1+ADw-/script+AD4-", "¼script¾window.owned=1¼/script¾",
    "＜script＞window.owned=1＜/script＞", "' style='position:fixed;inset:0;background:red", '" onmouseover="window.owned=1" x="',
    "' autofocus onfocus='window.owned=1", "` onclick=`window.owned=1", "--x:url(//evil.example);", "expression(window.owned=1)",
    "*{background:url(//evil.example/x)}", "</style><style>@import url(//evil.example/x)</style>", "<q/oncut=window.owned=1>",
    "<input id=threshold>", "<a id=scores name=getElementById>", "<form id=filters><input name=hidden>", "&lt;script&gt;window.owned=1",
)  # fmt: skip


def payloads() -> list[str]:
    """Two hundred of them and more."""
    made = list(ODD)
    made += [f"<img src=x {name}={RUN}>" for name in HANDLERS]
    made += [f'"><b {name}="{RUN}" tabindex=1>' for name in HANDLERS]
    made += [f"<{tag} {HANDLERS[i % len(HANDLERS)]}={RUN}>{RUN}</{tag}>" for i, tag in enumerate(TAGS)]
    made += [CALLS[i % len(CALLS)].format(address, address) for i, address in enumerate(ADDRESSES * 3)]
    made += [f"{end}<script>{RUN}</script>" for end in ENDS]
    made += [f"{end}<svg/onload={RUN}>" for end in ENDS]
    made += [f"{end}<img src=//evil.example/{i} onerror={RUN}>" for i, end in enumerate(ENDS)]
    # Those that would make a tag come first, for pages that show few.
    return sorted(dict.fromkeys(made), key=lambda each: not re.match("<(img|svg|script|b|xss)[ />]", each))


ALL = payloads()
JOINED = " ".join(ALL)


def mistake(i: int) -> Mistake:
    """One whose every word is a payload."""
    text, symbols = 2 * ALL[i], np.repeat([0.0, 1.0], len(ALL[i]))
    explanation = Explanation(
        prediction=text, towards=text, against=text, value=1.0, bias=0.0, text=text,
        symbols=symbols, method=AttributionMethod("occlusion", "made up", exact=False),
        substrings=[Substring(text, 2, 0.5)], merged=[Substring(text, 2, 0.5)], similar=[Similar(0, 0.5, 0.1, text, text)],
        parts=[KernelShare(text, 0.5, [Similar(0, 0.5, 0.1, text, text)])],
    )  # fmt: skip
    return Mistake(text, text, text, 0.5, text, explanation if i % 2 else None)


@cache
def binary(n: int) -> Report:
    """Two classes called by payloads, with facts, warnings and mistakes of payloads."""
    found = made((ALL[0], ALL[1]), title=JOINED)
    return replace(
        found,
        results=replace(found.results, warnings=ALL[:n]),
        facts=[(each, each) for each in ALL[:n]],
        mistakes=[mistake(i) for i in range(n)],
        features=[TopFeatures(ALL[0], ALL[1], [Feature(each, 1.0) for each in ALL[:n]])],
    )


@cache
def calibrated() -> Report:
    texts, labels = corpus((ALL[0], ALL[1]))
    model = CalibratedSVC(SVC(Spectrum(3), device="cpu"), cv=3).fit(texts[:40], labels[:40])
    return make_report(
        model.model_, judge(model, texts[40:], labels[40:]), texts[40:], ALL[:20], title=ALL[2]
    )


@cache
def of_classes(k: int, first: int = 0) -> Report:
    """So many classes called by payloads, each taken for the next."""
    names = np.array(sorted(ALL[first : first + k]))
    truth = np.repeat(np.arange(k), 2)
    said = np.where(np.arange(2 * k) % 2, truth, (truth + 1) % k)
    results = evaluate(names[truth], names[said], np.eye(k)[said], names).with_intervals(10)
    return Report(ALL[3], results, [], np.arange(1, 2 * k + 1), [])


@cache
def doubts(n: int) -> list[Doubt]:
    return [
        Doubt(i, ALL[i], ALL[(i + 1) % n], 0.9, [ALL[i]], (i + 2) % n, 0.5, ("label", "copy"))
        for i in range(n)
    ]


@cache
def compared(n: int) -> list:
    truth = np.array(["a", "b"] * 10)
    return [
        score_classifier(
            truth, truth, truth[::-1], None, name=name, fit=1, predict=1, chosen=name, is_textsvm=bool(i % 2)
        )
        for i, name in enumerate(ALL[:n])
    ]


def module(name: str) -> Any:
    """As it is now."""
    return importlib.import_module(f"textsvm.reporting.{name}")


def review(n: int) -> str:
    return module("pages").review_page(module("pages").Review(JOINED, doubts(n), ALL, ALL, ALL.__getitem__))


@cache
def model() -> SVC:
    texts, labels = corpus((ALL[0], ALL[1]))
    return SVC(Spectrum(3), device="cpu").fit(texts[:20], labels[:20])


def explained(n: int) -> str:
    """Explanations, of pieces of texts called by payloads."""
    found = []
    for i in range(1, n + n % 2, 2):
        text = ". ".join(ALL[i : i + 1] * 40)  # several passages
        symbols = np.resize([0.0, 1.0], len(text))
        method = AttributionMethod("occlusion", ALL[i], exact=False)
        found.append(replace(mistake(i).explanation, text=text, symbols=symbols, method=method))
    names = [f"{ALL[i // 2]}, piece {i % 2}" for i in range(len(found))]
    pieces = SimpleNamespace(texts=ALL[: len(found)], ids=names, piece_of=np.arange(len(found)) // 2)
    articles = [module("maps").rolling_section(model().model_, pieces, found)]
    articles += map(module("sections").explanation_section, names, found)
    return module("html").page(JOINED, JOINED, articles)


def mapped(n: int) -> str:
    """Maps of three classes of payloads, and of documents alone, of few and of many names."""
    rows = np.random.default_rng(0).normal(size=(max(n, 60), 5))
    maps = [class_map(x @ x.T, [ALL[i % 3] for i in range(len(x))]) for x in (rows, rows[:6])]
    names = [ALL[i % n] for i in range(len(rows))]
    body = [part for found in maps for part in module("maps").map_sections(found, names[: len(found.label)])]
    return module("html").page(JOINED, JOINED, body)


def comparison(n: int) -> str:
    body = [module("pages").accuracy_chart(compared(n)), module("pages").comparison_table(compared(n))]
    return module("html").page(JOINED, JOINED, body)


#: Pages by name, each of so many payloads.
PAGES = {
    "binary": lambda n: module("html").render(binary(n)),
    "calibrated": lambda n: module("html").render(calibrated()),
    "classes": lambda n: module("html").render(of_classes(9)),
    "many": lambda n: module("html").render(of_classes(40)),
    "figures": lambda n: module("html").charts(of_classes(9)),
    "parts": lambda n: module("html").render(everything(ALL[0])),
    "review": review,
    "comparison": comparison,
    "explained": explained,
    "mapped": mapped,
}
