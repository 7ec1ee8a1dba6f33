"""What a mail waits for a decision, and what a lesson takes: `python tests/mail_latency.py SPAM HAM`.

Two folders of mails: half of each is learnt by the server, in turns, and all are asked about.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from mail_servers import PYTHONPATH

from textsvm.apps.mail.client import ask
from textsvm.apps.mail.mailboxes import raw_messages


def timed(work, *given):
    clock = time.perf_counter()
    work(*given)
    return 1e3 * (time.perf_counter() - clock)


def say(what, times):
    print(f"{what}: median {np.median(times):.1f} ms, p99 {np.percentile(times, 99):.1f} ms of {len(times)}")


def main(spam, ham, most=1000):
    kinds = [[data for _, data in raw_messages(folder)][:most] for folder in (spam, ham)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
        command = [sys.executable, "-m", "textsvm", "mail", "serve", "--store", folder]
        server = subprocess.Popen(command, env=environment)
        at = f"{folder}/socket"
        while not Path(at).exists():
            time.sleep(0.1)
        learn = "TELL SPAMC/1.5\r\nMessage-class: {}\r\nSet: local\r\n"
        turns = chain.from_iterable(zip(*(each[::2] for each in kinds), strict=False))
        say(
            "lesson",
            [timed(ask, at, learn.format(("spam", "ham")[i % 2]), x, 60) for i, x in enumerate(turns)],
        )
        asked = [x for pair in zip(*kinds, strict=False) for x in pair]
        say("decision, the request alone", [timed(ask, at, "HEADERS SPAMC/1.5\r\n", x) for x in asked])
        file = Path(PYTHONPATH.split(os.pathsep)[0], "textsvm", "apps", "mail", "client.py")
        client = [sys.executable, "-I", "-S", str(file), "--socket", at]
        process = partial(subprocess.run, [*client, "-p"], stdout=subprocess.DEVNULL, check=False)
        say("decision, a process for each", [timed(lambda x=x: process(input=x)) for x in asked[:300]])
        with ThreadPoolExecutor(4) as pool:
            clock = time.perf_counter()
            list(pool.map(lambda x: ask(at, "CHECK SPAMC/1.5\r\n", x), asked))
            print(f"four clients: {len(asked) / (time.perf_counter() - clock):.0f} mails/s")
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
