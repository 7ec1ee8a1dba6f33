"""What a lesson takes of a machine that keeps many: `python tests/mail_lessons.py SPAM HAM 10000`.

Two folders of mails; where they are fewer, the fields of one and the text of another are a new one.
"""

import random
import sys
import time

import numpy as np

from textsvm.apps.mail.features import features, split_text
from textsvm.apps.mail.mailboxes import raw_messages
from textsvm.apps.mail.message import read_message
from textsvm.solvers.online import OnlineMachine


def timed(work):
    wall, cpu = time.perf_counter(), time.thread_time()
    work()
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.thread_time() - cpu)


def main(spam, ham, most, more=500):
    draw = random.Random(0)
    kinds = [[split_text(read_message(data).text) for _, data in raw_messages(each)] for each in (spam, ham)]
    machine, times, sizes = OnlineMachine(free_bias=False), [], []
    for i in range(int(most) + more):
        fields, text = (draw.choice(kinds[i % 2])[part] for part in (0, 1))
        keys, values = features(f"{fields}\n\n{text}")
        sizes.append(len(keys))
        if i < int(most):
            machine.add(i, keys, values, i % 2 == 0)
            continue
        if i == int(most):
            machine.settle()
            machine.budget = int(most)
        times.append(
            timed(lambda i=i, k=keys, v=values: (machine.add(i, k, v, i % 2 == 0), machine.settle()))
        )
    vectors = sum(alpha > 0 for alpha in machine.alphas.values())
    print(f"{np.mean(sizes):.0f} features a mail, {vectors} support vectors")
    for name, column in zip(("wall", "processor"), np.array(times).T, strict=True):
        print(name, *(f"p{p} {np.percentile(column, p):.1f} ms" for p in (50, 90, 99, 100)))


if __name__ == "__main__":
    main(*sys.argv[1:])
