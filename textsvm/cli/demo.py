"""textsvm demo: the main job on the embedded sample corpora."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.cli import options
from textsvm.cli.console import Console

if TYPE_CHECKING:
    from textsvm.estimators.svc import SVC

MESSAGE = "Congratulations! You have won a free prize. Click here to claim your money now!!!"


def demo(device: options.Device = "auto", quiet: options.Quiet = False) -> None:
    """Train, evaluate and use a spam filter on the embedded sample mails, with each kernel."""
    console = Console(quiet)

    from sklearn.model_selection import train_test_split

    from textsvm.cli.evaluate import judge, show
    from textsvm.estimators.svc import SVC
    from textsvm.kernels import EditDistance, GapWeighted, Spectrum
    from textsvm.readers import sample

    console.say("The first run compiles the kernels for this processor: some seconds, once.")
    path = sample("mail")
    corpus = options.read(console, path, options.Reading(positive="spam", negative="ham"))
    rest, held = train_test_split(range(len(corpus)), test_size=0.25, random_state=0, stratify=corpus.labels)
    training, test = corpus.subset(sorted(rest)), corpus.subset(sorted(held))

    rows, judged = [], []
    for kernel in (Spectrum(p=4), GapWeighted(p=3, decay=0.5), EditDistance(gamma=5.0, relative=True)):
        model = SVC(kernel, C=10, device=device, max_length=1000)
        clock = time.perf_counter()
        with console.progress():
            model.fit(training.texts, training.labels, progress=console.stage)
            results = judge(model, test, "spam", console.stage)
        seconds = f"{time.perf_counter() - clock:.1f}"
        rows.append((kernel.name, f"{100 * results.accuracy:.1f} %", f"{len(model.support_)}", seconds))
        judged.append((model, results))
    model, results = judged[0]
    console.say_device(model.device_)
    console.table(
        f"{len(training)} sample mails to learn from, {len(test)} to judge on; {model.device_.description}",
        rows,
        ("kernel", "accuracy", "support vectors", "seconds"),
    )
    show(console, "spectrum kernel", results)
    console.line(_use(model))
    console.line("\nThe same on your own mails (a sub-folder or an archive of each class):")
    console.line("  textsvm train MAILS -o spam.textsvm --holdout 0.25")
    console.line("  textsvm predict spam.textsvm message.eml")


def _use(model: SVC) -> str:
    """Save the model, load it again and classify a message with it."""
    from textsvm.model_file import load, save

    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "spam.textsvm")
        again = load(Path(folder) / "spam.textsvm")
    value = float(again.decision_function([MESSAGE])[0])
    return f"{MESSAGE!r} is {again.classes_[int(value > 0)]} (decision {value:+.2f})"
