"""Learners killed at random moments: what was answered is in the store, once, and the store goes on.

    python tests/mail_faults.py 200 20

kills 200 forked learners and 20 processes of `textsvm mail learn`, in a temporary folder.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing

from mails import mail, teach

from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.lessons import Lessons
from textsvm.apps.mail.message import read_message

KINDS = ("spam", "ham")


def kill_learners(folder, times, seed=5):
    """Fork learners one after the other and kill each; (lessons answered, lessons that may be there)."""
    draw, answered, number = random.Random(seed), {}, 0
    with Filter(folder, create=True) as opened:
        teach(opened, 3, first=1_000_000)
    for _ in range(times):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _learn_for_ever(folder, number, write)
        os.close(write)
        answers = os.read(read, 4)  # it is at work
        time.sleep(draw.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(read, 65536):
            answers += more
        os.close(read)
        n = len(answers) // 4
        answered |= {i: KINDS[i % 2] for i in range(number, number + n)}
        number += n + 1  # the one on its way may be there or not
    return answered, len(answered) + times + 6


def _learn_for_ever(folder, number, answers):
    try:
        opened = Filter(folder)
        while True:
            opened.learn(mail(KINDS[number % 2], number), KINDS[number % 2])
            os.write(answers, number.to_bytes(4, "big"))
            number += 1
    finally:
        os._exit(1)


def kill_commands(folder, times, seed=6):
    """Kill processes of the command line, each learning one mail; those that ended have answered."""
    draw, answered = random.Random(seed), {}
    for number in range(2_000_000, 2_000_000 + times):
        kind = KINDS[number % 2]
        command = [sys.executable, "-m", "textsvm", "mail", "learn", "--as", kind, "--store", str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            process.stdin.write(mail(kind, number))
            process.stdin.close()
            try:
                process.wait(draw.uniform(0.5, 3))
            except subprocess.TimeoutExpired:
                process.kill()
        if process.returncode == 0:
            answered[number] = kind
    return answered


def check(folder, answered, most):
    """Nothing lost, nothing doubled, nothing damaged; and the filter goes on."""
    with closing(Lessons(folder)) as store:
        store.check_file()
        kinds = {lesson.digest: lesson.kind for lesson in store.iterate()}
        rows, distinct = store._row("select count(*), count(distinct digest) from lessons")
        assert store._row("select count(*) from bodies")[0] == rows == distinct
    lost = [i for i, kind in answered.items() if kinds.get(read_message(mail(kind, i)).digest) != kind]
    assert lost == []
    assert len(answered) + 6 <= rows <= most
    with Filter(folder) as opened:
        assert opened.learn(mail("spam", 3_000_000), "spam")
        assert opened.unlearn(mail("spam", 3_000_000))
        assert opened.classify(mail("spam", 77)).value > opened.classify(mail("ham", 77)).value


def main():
    times, commands = (int(each) for each in (*sys.argv[1:], "200", "20")[:2])
    with tempfile.TemporaryDirectory() as folder:
        answered, most = kill_learners(folder, times)
        check(folder, answered, most)
        print(f"{times} learners killed: {len(answered):,} lessons answered, none lost, none doubled")
        more = kill_commands(folder, commands)
        check(folder, answered | more, most + commands + 1)
        print(f"{commands} commands killed or ended: {len(more)} answered, none lost, none doubled")


if __name__ == "__main__":
    main()
