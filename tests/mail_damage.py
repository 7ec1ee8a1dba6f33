"""Random bits of a mail store flipped: `python tests/mail_damage.py 10000` flips that many, each alone.

After each flip the store classifies, is checked, shows its status, exports and learns a lesson. Each of these
fails with a sentence, or has the result of the intact store; anything else is printed and counted as silent.
"""

import math
import random
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from mails import mail, teach

from textsvm.apps.mail.features import features
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.lessons import FILE, Lessons
from textsvm.apps.mail.message import read_message
from textsvm.errors import InputError
from textsvm.runtime import compiled

NAMES = (FILE, "weights")
PROBES = [features(read_message(mail(kind, i)).text) for kind in ("spam", "ham") for i in range(100, 105)]


def build(folder, n=8):
    """A store of n lessons of each kind, and a long one, whose rows take several pages."""
    with Filter(folder, create=True) as opened:
        teach(opened, n)
        opened.learn(mail("ham", 90, words=4000), "ham")
    return {name: (folder / name).read_bytes() for name in NAMES}


def restore(folder, files):
    """Replace the files of a store."""
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def decisions(folder):
    with Filter(folder) as opened:
        decisions = [opened.model().decide(*probe) for probe in PROBES]
        return [(each.kind, each.score, each.value) for each in decisions]


def status(folder):
    with Filter(folder) as opened:
        return opened.status()


def learnt(folder):
    with Filter(folder) as opened:
        new = opened.learn(mail("spam", 95), "spam")
    return new, decisions(folder)


def checked(folder):
    with closing(Lessons(folder)) as lessons:
        return lessons.check_file()


def exported(folder):
    """Digest -> class and message of the lessons that `export` writes, in order."""
    with closing(Lessons(folder, damaged=True)) as lessons:
        return [each and (each.digest, each.kind, each.message) for each in lessons.intact()]


WORKS = (decisions, checked, status, exported, learnt)


def outcome(work, folder):
    """The result of `work`; the sentence if it fails with one."""
    try:
        return work(folder)
    except InputError as error:
        return error


def same(result, expected):
    """Whether results are equal, decision values up to the rounding of weights."""
    if isinstance(expected, float):
        return math.isclose(result, expected, abs_tol=1e-5)
    if isinstance(expected, list | tuple):
        return len(result) == len(expected) and all(map(same, result, expected))
    return result == expected


def correct(name, result, expected):
    """Whether a result is that of the intact store; an export may lack lessons, and says how many."""
    if name != "exported":
        return same(result, expected)
    whole = [each for each in result if each]
    known = {each[0]: each for each in expected}
    texts = all(each[1] == known[each[0]][1] and each[2] in (known[each[0]][2], None) for each in whole)
    return texts and len(result) >= len(expected)


def flip(folder, files, number, place=None):
    """Flip a random bit; how many of the works failed, and the names of those with wrong results."""
    draw = random.Random(f"bit {number}")
    name = draw.choices(NAMES, (3, 1))[0]
    content = bytearray(files[name])
    bit = draw.randrange(8 * len(content)) if place is None else place
    content[bit // 8] ^= 1 << bit % 8
    failed, wrong = 0, []
    for work in WORKS:
        restore(folder, files | {name: bytes(content)})
        result = outcome(work, folder)
        failed += isinstance(result, InputError) or (work is exported and result != EXPECTED["exported"])
        if not isinstance(result, InputError) and not correct(work.__name__, result, EXPECTED[work.__name__]):
            wrong.append(f"{work.__name__} after bit {bit} of {name}")
    return failed, wrong


EXPECTED = {}


@patch.object(compiled, "NUMPY_SIZE", 0)  # to compile later would use up the time that a lesson has
def attack(parent, times, first=0):
    """Flip bits one at a time; a count of outcomes, and descriptions of silent damage."""
    store, folder = Path(parent, "store"), Path(parent, "copy")
    folder.mkdir()
    files = build(store)
    for work in WORKS:
        restore(folder, files)
        EXPECTED[work.__name__] = work(folder)
    counts, silent = Counter(), []
    for number in range(first, first + times):
        failed, wrong = flip(folder, files, number)
        silent += wrong
        counts["silent" if wrong else "noticed" if failed else "without effect"] += 1
        if (number + 1) % 500 == 0:
            print(number + 1, dict(counts), *wrong, flush=True)
    return counts, silent


def main(times, first=0):
    with tempfile.TemporaryDirectory() as folder:
        counts, silent = attack(folder, times, first)
    print("\n".join(silent), dict(counts), sep="\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
