"""textsvm demo: train a spam filter on bundled messages, and explain a prediction."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from textsvm.cli import options
from textsvm.cli.console import Console
from textsvm.errors import printable

if TYPE_CHECKING:
    from textsvm.evaluation.explanation import Explanation

MESSAGE = (
    "Hi Anna, see you on Friday? You were chosen for a pr1ze of 900 euros, cla1m your free phone: reply YES"
)
MOST = "ham"  #: Commonest class of the sample.
WORDS = 5  #: Number of listed words.


def demo(device: options.Device = "auto") -> None:
    """Train a spam filter on bundled messages, and explain a prediction."""
    from rich.text import Text

    from textsvm.cli import corpora
    from textsvm.cli.explain import coloured, legend
    from textsvm.evaluation import explanation
    from textsvm.model.settings import ClassifierSettings
    from textsvm.readers import sample
    from textsvm.training.folds import shuffle_split
    from textsvm.training.train import train

    console = Console()
    corpus = corpora.read(console, sample("messages"), options.ReadingOptions(text=["text"], label="label"))
    training_rows, test_rows = shuffle_split(len(corpus), 1 / 3, 0, corpus.labels)
    training, test = corpus.subset(training_rows), corpus.subset(test_rows)
    few = training.subset(range(100))
    train(ClassifierSettings(device=device), few.texts, few.labels or []).predict(few.texts)  # compiles
    console.lap("compile")
    model = train(ClassifierSettings(device=device), training.texts, training.labels or [])
    console.lap("train")
    labels, took = [str(label) for label in test.labels or []], console.seconds["train"]
    console.say_device(model.device_in_use)
    right = sum(map(str.__eq__, model.predict(test.texts).tolist(), labels))
    device = model.device_in_use.description
    console.line(
        f"Ham or spam? {len(training)} generated short messages to learn from, {len(test)} others to judge "
        f"on.\n{model.record.chosen}.\nTrained in {took:.1f} s on {device}: {right} of {len(test)} right "
        f"({100 * right / len(test):.1f} %); always {MOST!r}: "
        f"{100 * labels.count(MOST) / len(test):.1f} %.\n\nWhy is this message spam?\n"
    )
    explained = explanation.explain(model, [MESSAGE], positive="spam")[0]
    console.lap("explain")
    console.stdout.print(coloured(explained), soft_wrap=True)
    console.stdout.print(legend(explained), soft_wrap=True)
    words = ", ".join(f"{printable(word)} {share:+.2f}" for word, share in _words(explained))
    verdict = Text(f"is {printable(str(explained.prediction))}", style="bold")
    verdict.append(f" (decision value {explained.value:+.2f}), most of all for {words}", style="not bold")
    console.stdout.print(verdict, soft_wrap=True)
    console.line("\nThe same on your own messages (a table, or a sub-folder of each class):")
    console.line("  textsvm train MESSAGES -o spam.textsvm --holdout 0.25")
    console.line("  textsvm explain spam.textsvm message.eml")
    console.line("  textsvm export spam.textsvm -o spam.html      # a page that classifies as you type")
    console.line("  textsvm compare MESSAGES      # beside two scikit-learn pipelines")


def _words(explanation: Explanation) -> list[tuple[str, float]]:
    """Words with the largest contributions to the decision, summed over their symbols."""
    sign = 1 if explanation.value > 0 else -1
    words = [
        (match[0].strip(".,:;!?") or match[0], float(explanation.symbols[match.start() : match.end()].sum()))
        for match in re.finditer(r"\S+", explanation.text)
    ]
    return sorted(words, key=lambda word: -sign * word[1])[:WORDS]
