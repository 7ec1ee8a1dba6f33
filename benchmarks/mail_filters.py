"""The filters that `bench mail` compares: each classifies raw messages and learns them, as its users have it.

What each sees. Ours: what `read_message` makes of a message, without what servers and other filters wrote
into its header (Received, Delivered-To, X-Spam-*). Bogofilter and TF-IDF: the whole header too, with the
servers that the collectors of a corpus fetched their mail from, which differ for ham and spam there: an
advantage that they keep. All of them see To, Cc, Date and what mailing lists write, which is a person's
honest evidence, and partly how this corpus was collected: `FewFields` is ours without that.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.mail_stream import Mail
from textsvm.apps.mail.message import FIELDS
from textsvm.apps.mail.raw_message import RawMessage
from textsvm.readers.mail import message_text


class Contender(Protocol):
    """A filter on trial."""

    #: What it is, with its version.
    name: str

    def classify(self, data: bytes) -> tuple[str, float]:
        """Its kind ("spam", "ham" or "unsure"), and a score that is larger for what is more likely spam."""

    def learn(self, mail: Mail) -> None:
        """Learn a message as what it is."""

    def close(self) -> None:
        """Give everything back."""


class Ours:
    """`textsvm.apps.mail.Filter` in this process, lessons on disk before it answers; decision values."""

    def __init__(self) -> None:
        from textsvm.apps.mail.filter import Filter

        self.name = "textsvm"
        self._folder = tempfile.TemporaryDirectory()
        self._filter = Filter(Path(self._folder.name), create=True)

    def classify(self, data: bytes) -> tuple[str, float]:
        """As a Contender."""
        decision = self._filter.classify(data)
        return decision.kind, decision.value

    def learn(self, mail: Mail) -> None:
        """As a Contender."""
        self._filter.learn(mail.data, "spam" if mail.spam else "ham")

    def check(self, some: list[Mail]) -> None:
        """A filter that reads the same store from disk decides as this one does, to rounding."""
        from textsvm.apps.mail.filter import Filter

        here = [self._filter.classify(mail.data).value for mail in some]
        self._filter.close()
        self._filter = Filter(Path(self._folder.name))
        there = [self._filter.classify(mail.data).value for mail in some]
        np.testing.assert_allclose(there, here, atol=1e-3)

    def close(self) -> None:
        """As a Contender."""
        self._filter.close()
        self._folder.cleanup()


class FewFields(Ours):
    """Ours, which sees of the header only the fields that people read (`message.FIELDS`)."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "textsvm, few fields"

    def classify(self, data: bytes) -> tuple[str, float]:
        """As a Contender."""
        return super().classify(few_fields(data))

    def learn(self, mail: Mail) -> None:
        """As a Contender."""
        super().learn(Mail(mail.name, few_fields(mail.data), mail.spam))


def few_fields(data: bytes) -> bytes:
    """A message without the fields of which a corpus's collectors may have made a mark of ham or spam: To,
    Cc, Date, Message-ID's host, those of mailing lists, ..."""
    message = RawMessage(data)
    kept = [
        data[start:stop]
        for start, stop in message.fields(message.fields_end)
        if data[start:stop].partition(b":")[0].strip().lower().decode("ascii", "replace") in FIELDS
    ]
    return b"".join(kept) + data[message.fields_end :]


class Bogofilter:
    """The program, called for each message as mail programs call it: -TT for a decision, then -s or -n."""

    def __init__(self) -> None:
        first = subprocess.run(["bogofilter", "-V"], capture_output=True, text=True, check=True).stdout
        self.name = first.splitlines()[0].replace(" version", "")
        self._folder = tempfile.TemporaryDirectory()

    def _call(self, option: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
        command = ["bogofilter", "-C", "-d", self._folder.name, option]
        return subprocess.run(command, input=data, capture_output=True, check=False)

    def classify(self, data: bytes) -> tuple[str, float]:
        """As a Contender; before its first lesson the program fails: the score is its own for no evidence."""
        done = self._call("-TT", data)
        kinds = ("spam", "ham", "unsure")
        return ("unsure", 0.52) if done.returncode == 3 else (kinds[done.returncode], float(done.stdout))

    def learn(self, mail: Mail) -> None:
        """As a Contender."""
        done = self._call("-s" if mail.spam else "-n", mail.data)
        assert done.returncode == 0, done.stderr

    def close(self) -> None:
        """As a Contender."""
        self._folder.cleanup()


class TfidfSgd:
    """Hashed words and pairs of words, weighed by documents so far; logistic regression, a step a lesson."""

    def __init__(self) -> None:
        import sklearn
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.linear_model import SGDClassifier

        self.name = f"TF-IDF + SGD (scikit-learn {sklearn.__version__})"
        self._vectorizer = HashingVectorizer(
            n_features=1 << 18, ngram_range=(1, 2), alternate_sign=False, norm=None
        )
        self._machine = SGDClassifier(loss="log_loss", alpha=1e-6, random_state=0)
        self._documents = np.zeros(1 << 18)
        self._learnt = 0

    def _row(self, data: bytes) -> Any:
        from sklearn.preprocessing import normalize

        row = self._vectorizer.transform([message_text(data, headers=True)[0]])
        row.data = (1 + np.log(row.data)) * (
            1 + np.log((1 + self._learnt) / (1 + self._documents[row.indices]))
        )
        return normalize(row, copy=False)

    def classify(self, data: bytes) -> tuple[str, float]:
        """As a Contender."""
        if not self._learnt:
            return "ham", 0.0
        value = float(self._machine.decision_function(self._row(data))[0])
        return "spam" if value > 0 else "ham", value

    def learn(self, mail: Mail) -> None:
        """As a Contender."""
        row = self._row(mail.data)
        self._documents[row.indices] += 1
        self._learnt += 1
        self._machine.partial_fit(row, [mail.spam], classes=[False, True])

    def close(self) -> None:
        """As a Contender."""


def contenders() -> dict[str, type[Ours] | type[Bogofilter] | type[TfidfSgd]]:
    """Those that are here, by the name they are asked for."""
    found: dict[str, type[Ours] | type[Bogofilter] | type[TfidfSgd]] = {
        "textsvm": Ours,
        "few_fields": FewFields,
    }
    if shutil.which("bogofilter"):
        found["bogofilter"] = Bogofilter
    return found | {"sgd": TfidfSgd}
