"""SIGKILL at random moments: `python tests/mail_kills.py 100` kills a server and a learner so often.

They work on one store. Afterwards it opens and is sound, and each message is known as the last lesson about
it that was answered says, or a later one that was under way: none is lost, none is there twice.
"""

import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from mails import learnt_kind

from textsvm.apps.mail.client import Trouble, ask
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.server import MessageReader, listen, serve

#: Messages that clients of the server learn and unlearn (two of them, half each), and that the learner does.
BY_CLIENTS, BY_LEARNER = 40, 20
WISHES = ("spam", "ham", None)


def message(i):
    words = random.Random(i).choices(["offer", "meeting", "pills", "minutes", "money", "tomorrow"], k=30)
    return f"From: {i}@example.org\nSubject: {' '.join(words[:4])}\n\n{' '.join(words)} {i}\n".encode()


def fork(work):
    """A process that does something; what has been imported and compiled is there already."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    finally:
        os._exit(1)


class Round:
    """A server and a learner from their start to their end by SIGKILL."""

    def __init__(self, folder, chance, states):
        self.folder, self.chance, self.states = folder, chance, states
        self.path = folder / "socket"
        self.answered = 0
        self.stopping = False

    def serve(self):
        reader, mail = MessageReader(print), Filter(self.folder)
        mail.read = reader.read
        serve(mail, [listen(self.path)], print)

    def run(self):
        seeds = [self.chance.random() for _ in range(3)]
        reading, writing = os.pipe()
        server = fork(self.serve)
        learner = fork(lambda: self.learn(seeds[2], writing))
        os.close(writing)
        half = BY_CLIENTS // 2
        threads = [
            threading.Thread(target=self.feed, args=(seeds[i], range(i * half, i * half + half)))
            for i in (0, 1)
        ]
        for each in threads:
            each.start()
        for process, seconds in sorted(
            [(server, self.chance.uniform(0, 1.2)), (learner, self.chance.uniform(0, 1.2))],
            key=lambda one: one[1],
        ):
            time.sleep(seconds / 2)
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self.stopping = True
        for each in threads:
            each.join()
        with open(reading, "rb") as lines:
            self.take_over(lines.read().decode())

    def feed(self, seed, mine):
        """A client that tells the server one lesson after another, until it is gone."""
        chance = random.Random(seed)
        while not self.stopping and not self.path.exists():
            time.sleep(0.01)
        while not self.stopping:
            i, wish = chance.choice(mine), chance.choice(WISHES)
            what = f"Message-class: {wish}\r\nSet: local" if wish else "Remove: local"
            try:
                ask(str(self.path), f"TELL SPAMC/1.5\r\n{what}\r\n", message(i), 20)
            except Trouble:
                self.states[i] = {*self.states[i], wish}  # it may have been done
                time.sleep(0.01)
            else:
                self.states[i] = {wish}
                self.answered += 1

    def learn(self, seed, writing):
        """The learner: says before and after each lesson which it is."""
        chance, mail = random.Random(seed), Filter(self.folder)
        while True:
            i, wish = chance.randrange(BY_CLIENTS, BY_CLIENTS + BY_LEARNER), chance.choice(WISHES)
            os.write(writing, f"{i} {wish} begun\n".encode())
            mail.learn(message(i), wish) if wish else mail.unlearn(message(i))
            os.write(writing, f"{i} {wish} done\n".encode())

    def take_over(self, lines):
        for line in lines.splitlines():
            i, wish, how = line.split(" ")
            wish = None if wish == "None" else wish
            self.states[int(i)] = {wish} if how == "done" else {*self.states[int(i)], wish}
            self.answered += how == "done"

    def check(self):
        """The store opens, and knows what it must."""
        with Filter(self.folder) as mail:
            mail.lessons.check_file()
            known = [learnt_kind(mail, message(i)) for i in range(BY_CLIENTS + BY_LEARNER)]
            for i, kind in enumerate(known):
                assert kind in self.states[i], (i, kind, self.states[i])
                self.states[i] = {kind}
            counts = mail.lessons.counts()
            assert counts == {kind: known.count(kind) for kind in ("spam", "ham")}, counts
            mail.classify(message(0))


def main(rounds, seed=1):
    """Kill so often; how many lessons were answered."""
    chance, states = random.Random(seed), {i: {None} for i in range(BY_CLIENTS + BY_LEARNER)}
    answered = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "store")
        with Filter(folder, create=True) as mail:  # compiled before the first fork
            for i, kind in enumerate(("spam", "ham")):
                mail.learn(message(i), kind)
                states[i] = {kind}
        for _ in range(rounds):
            one = Round(folder, chance, states)
            one.run()
            one.check()
            answered += one.answered
    return answered


if __name__ == "__main__":
    count = int(sys.argv[1])
    print(
        f"{2 * count} kills, {main(count, *map(int, sys.argv[2:]))} lessons answered, none lost, none twice"
    )
