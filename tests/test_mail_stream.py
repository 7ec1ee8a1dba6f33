"""The measures of TREC's spam track, the order of mails, and the benchmark on a few of the sample's."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks import mail as bench
from benchmarks import mail_few as few
from benchmarks.__main__ import main
from benchmarks.mail_filters import contenders
from benchmarks.mail_stream import Mail, arrival, due, lam, mails, one_minus_roca, shuffled, spam_missed
from textsvm.readers import sample


def test_roc_area_is_a_share_of_pairs():
    """By definition: pairs of a ham and a spam the wrong way round, ties half; and scikit-learn's area."""
    generator = np.random.default_rng(0)
    spam = generator.random(60) < 0.4
    scores = np.round(generator.normal(size=60) + spam, 1)
    wrong = sum((s < h) + (s == h) / 2 for s in scores[spam] for h in scores[~spam])
    expected = 100 * wrong / (spam.sum() * (~spam).sum())
    assert one_minus_roca(spam, scores) == pytest.approx(expected)
    assert one_minus_roca(spam, scores) == pytest.approx(100 * (1 - roc_auc_score(spam, scores)))
    assert math.isnan(one_minus_roca([True, True], [1, 2]))


def test_lam_by_hand():
    """logit 1 % = -4.59512, logit 20 % = -1.38629; their mean -2.99071 is the logit of 4.78475 %."""
    assert lam(1, 20) == pytest.approx(4.78475, abs=1e-5)
    assert lam(20, 1) == lam(1, 20)
    assert lam(7, 7) == pytest.approx(7)
    assert [lam(0, 20), lam(100, 20), lam(0, 100)] == [0, 100, 50]


def test_spam_missed_at_a_rate_of_ham():
    """Of 1,000 hams one may be lost at .1 %, and none at .05 %."""
    scores = np.concatenate([np.arange(1000) / 1000, [0.9985, 0.9985, 2.0, 0.5]])
    spam = np.arange(1004) >= 1000
    assert spam_missed(spam, scores) == pytest.approx(25)
    assert spam_missed(spam, scores, 0.05) == pytest.approx(75)


@pytest.mark.parametrize(
    ("header", "day"),
    [
        ("Received: by a; Tue, 06 Aug 2002 00:00:00 +0000\nReceived: ; Mon, 01 Jan 2001 00:00:00 +0000", 6),
        ("Date: Wed, 07 Oct 2020 00:00:00 +0000\nReceived: by\n\tb;\n\tTue, 06 Aug 2002 02:00:00 +0200", 6),
        ("Date: Wed, 7 Aug 2002 00:00:00 -0000", 7),
        ("Received: by a; Wed, 07 Aug 0102 00:00:00 +0000\ndate: Thu, 08 Aug 2002 00:00:00 +0000 (GMT)", 8),
        ("Received: by nobody\nDate: Fri, 9 Aug 02 00:00", 9),
    ],
)
def test_arrival(header, day):
    """The topmost Received, folded or not; a Date where it says nothing that can be."""
    message = f"{header}\n\nDate: Thu, 01 Jan 1998 00:00:00 +0000\n"
    assert arrival(message.encode()) == 1028592000 + 86400 * (day - 6)


def test_mails_in_order():
    stream = mails(sample("mail"))
    times = [arrival(mail.data) for mail in stream]
    assert times == sorted(times)
    assert len(stream) == 400
    assert 0 < sum(mail.spam for mail in stream) < 400
    again = shuffled(stream)
    assert again != stream
    assert sorted(mail.name for mail in again) == sorted(mail.name for mail in stream)


def test_what_is_learnt_when():
    def learnt(task: str) -> list[list[int]]:
        return [list(numbers) for _, numbers in due(task, 5, 2, 3)]

    assert learnt("immediate") == [[0], [1], [2], [3], [4]]
    assert learnt("delayed") == [[], [], [0], [1], [2]]
    assert learnt("first") == [[0], [1], [2], [], []]


def test_a_filter_is_judged_before_it_learns():
    """One that knows what it was told says nothing of what it has not seen."""

    class Memory:
        name = "memory"

        def __init__(self) -> None:
            self.known: dict[bytes, bool] = {}

        def classify(self, data: bytes) -> tuple[bool, float]:
            assert data not in self.known
            return False, float(len(self.known))

        def learn(self, mail: Mail) -> None:
            self.known[mail.data] = mail.spam

        def close(self) -> None:
            pass

    stream = [Mail(str(i), b"%d" % i, i % 2 == 0) for i in range(6)]
    outcome = bench.trial(Memory(), stream, "delayed", 2)
    assert outcome.scores == [0, 0, 0, 1, 2, 3]
    assert outcome.spam == [True, False] * 3
    assert outcome.lessons == 4


@pytest.mark.slow
def test_quick(tmp_path):
    """All filters that are here; the table, and the figures as JSON."""
    there = list(contenders())
    words = "--quick --every 20 --delay 5 --orders date --tasks immediate delayed"
    main(["mail", *words.split(), "--filters", *there, "-o", str(tmp_path / "mail")])
    rows = json.loads((tmp_path / "mail.json").read_text())["rows"]
    assert len(rows) == 2 * len(there)
    for row in rows:
        assert 0 <= row["(1-ROCA)%"] <= 100
        assert (row["mails"], row["order"]) == (20, "date")
    assert (tmp_path / "mail.md").read_text().startswith("# Mail filters")


def test_ten_lessons_of_each_kind_are_of_use():
    """Of the sample's other mails a tenth of the spam is called spam, and no ham; lessons keep their kind."""
    result = few.row(contenders()["textsvm"], "random", [shuffled(mails(sample("mail")), 1)], 10, 100)
    assert result["spam caught"] > result["of spam"] / 10
    assert result["ham lost"] == result["taught wrong"] == 0
    assert result["(1-ROCA)%"] < 20
