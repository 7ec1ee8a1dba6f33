"""textsvm demo: the main job on the embedded sample corpora."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from textsvm.cli import options
from textsvm.cli.console import Console


def demo(device: options.Device = "auto", quiet: options.Quiet = False) -> None:
    """Train, evaluate and use a spam filter on the embedded sample mails, with each kernel."""
    console = Console(quiet)

    from sklearn.model_selection import train_test_split

    from textsvm.cli.evaluate import judge, show
    from textsvm.estimators.svc import SVC
    from textsvm.kernels import EditDistance, GapWeighted, Spectrum
    from textsvm.model_file import load, save
    from textsvm.readers import sample

    console.say("The first run compiles the kernels for this processor: some seconds, once.")
    path = sample("mail")
    corpus = options.read(console, path, positive="spam", negative="ham")
    rest, held = train_test_split(range(len(corpus)), test_size=0.25, random_state=0, stratify=corpus.labels)
    training, test = corpus.subset(sorted(rest)), corpus.subset(sorted(held))

    kernels = {
        "spectrum, p = 4": Spectrum(p=4),
        "edit distance, relative": EditDistance(gamma=5.0, relative=True),
        "gap-weighted, p = 3": GapWeighted(p=3, decay=0.5),
    }
    rows, best = [], None
    for name, kernel in kernels.items():
        model = SVC(kernel, C=10, device=device, max_length=1000)
        clock = time.perf_counter()
        with console.progress():
            model.fit(training.texts, training.labels, progress=console.stage)
            results = judge(model, test, "spam", console.stage)
        seconds = time.perf_counter() - clock
        rows.append((name, f"{100 * results.accuracy:.1f} %", f"{len(model.support_)}", f"{seconds:.1f}"))
        if best is None or results.accuracy > best[1].accuracy:
            best = (model, results, name)
    assert best is not None
    console.table(
        f"{len(training)} sample mails to learn from, {len(test)} to judge on; {best[0].device_.description}",
        rows,
        ("kernel", "accuracy", "support vectors", "seconds"),
    )
    show(console, best[2], best[1])
    with tempfile.TemporaryDirectory() as folder:
        save(best[0], Path(folder) / "spam.textsvm")
        again = load(Path(folder) / "spam.textsvm")
        message = "Congratulations! You have won a free prize. Click here to claim your money now!!!"
        value = float(again.decision_function([message])[0])
    console.stdout.print(
        f"{message!r} is {again.classes_[int(value > 0)]} (decision {value:+.2f})", markup=False
    )
    console.stdout.print(
        f"\nThe same on your own mails:\n  textsvm train {path} -o spam.textsvm --holdout 0.25"
    )
    console.stdout.print("  textsvm predict spam.textsvm message.eml", markup=False)
