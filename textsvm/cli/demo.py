"""textsvm demo: the main job on embedded messages, with what scikit-learn's users would write beside it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from textsvm.cli import options
from textsvm.cli.console import Console

if TYPE_CHECKING:
    from textsvm.evaluation.explanation import Explanation
    from textsvm.evaluation.opponents import Answer
    from textsvm.readers import Corpus

MESSAGE = (
    "Hi Anna, see you on Friday? You were chosen for a pr1ze of 900 euros, cla1m your free phone: reply YES"
)
#: Words that are named.
WORDS = 5


def demo(device: options.Device = "auto", quiet: options.Quiet = False) -> None:
    """Train a spam filter on embedded messages, judge it beside scikit-learn, and ask it for its reasons."""
    console = Console(quiet)

    from textsvm.evaluation import opponents
    from textsvm.evaluation.explanation import explain
    from textsvm.readers import sample
    from textsvm.selection.folds import shuffle_split

    console.say("The first run compiles the kernels for this processor: some seconds, once.")
    corpus = options.read(console, sample("messages"), options.Reading(text=["text"], label="label"))
    rest, held = shuffle_split(len(corpus), 1 / 3, 0, corpus.labels)
    training, test = corpus.subset(rest), corpus.subset(held)
    few = training.subset(range(100))
    opponents.answer(_machine(device), few.texts, few.labels or [], few.texts)
    model = _machine(device)
    ours = opponents.answer(model, training.texts, training.labels or [], test.texts)
    theirs = opponents.answer(opponents.first(), training.texts, training.labels or [], test.texts)
    console.say_device(model.device_)
    console.line(
        f"{len(training)} short messages to learn from, {len(test)} to judge on; "
        f"{model.device_.description}{f'; {ours.chosen}' if ours.chosen else ''}\n"
    )
    _compare(console, test, ours, theirs)
    _tell(console, explain(model, [MESSAGE], positive="spam")[0])
    console.line("\nThe same on your own messages (a table, or a sub-folder of each class):")
    console.line("  textsvm train MESSAGES -o spam.textsvm --holdout 0.25")
    console.line("  textsvm explain spam.textsvm message.eml")


def _machine(device: str) -> Any:
    """What the demo trains."""
    from textsvm.estimators.svc import SVC

    return SVC(device=device)


def _compare(console: Console, test: Corpus, ours: Answer, theirs: Answer) -> None:
    """Both sides on the same messages, and whether they really differ."""
    from textsvm.evaluation.comparison import compare_predictions
    from textsvm.evaluation.opponents import FIRST

    labels = test.labels or []
    rows = []
    for name, each in (("textsvm", ours), (f"scikit-learn: {FIRST}", theirs)):
        right = sum(said == label for said, label in zip(each.predicted.tolist(), labels, strict=True))
        seconds = f"{each.fit + each.predict:.2f}"
        rows.append((name, f"{100 * right / len(labels):.1f} %", f"{right} of {len(labels)}", seconds))
    console.table("ham or spam?", rows, ("", "accuracy", "right", "seconds"))
    found = compare_predictions(labels, ours.predicted, theirs.predicted)
    console.line(
        f"Only textsvm is right on {found.only_first} of them, only scikit-learn on {found.only_second}: "
        f"p = {found.p_value:.2g}.\n"
    )


def _tell(console: Console, found: Explanation) -> None:
    """One message decided, and the words that decided it."""
    from rich.text import Text

    from textsvm.cli.explain import coloured, key
    from textsvm.errors import printable

    console.stdout.print(coloured(found), soft_wrap=True)
    console.stdout.print(key(found), soft_wrap=True)
    head = Text(f"is {printable(str(found.prediction))}", style="bold")
    head.append(f" (decision value {found.value:+.2f}), most of all for", style="not bold")
    for number, (word, share) in enumerate(_words(found)):
        head.append(f"{', ' if number else ' '}{printable(word)} {share:+.2f}", style="not bold")
    console.stdout.print(head, soft_wrap=True)


def _words(found: Explanation) -> list[tuple[str, float]]:
    """The words that speak most for the decision, with the sums of their symbols' contributions."""
    sign = 1 if found.value > 0 else -1
    words = [
        (each[0].strip(".,:;!?") or each[0], float(found.symbols[each.start() : each.end()].sum()))
        for each in re.finditer(r"\S+", found.text)
    ]
    return sorted(words, key=lambda word: -sign * word[1])[:WORDS]
