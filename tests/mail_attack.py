"""Hostile beside ordinary clients: `python tests/mail_attack.py 300` attacks a server for 300 seconds.

200 hostile clients send large and costly messages, single bytes, half messages and invalid
data, open many connections and do not read their answers. Four ordinary clients ask about a message every
tenth of a second; their latencies, also without attackers, and the server's memory are printed. The hostile
clients have the priority (nice) of the variable NICE, by default 19, and are in as many processes as
PROCESSES says, by default 1.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from mail_servers import PYTHONPATH, process
from mails import mail

from textsvm.apps.mail.client import Trouble, ask

HOSTILE, ORDINARY = 200, 4
PROCESSES = int(os.environ.get("PROCESSES", "1"))
HEAD = "CHECK SPAMC/1.5\r\nContent-length: {}\r\n"
COSTLY = b"Subject: x\nContent-Type: text/html\n\n" + b"<b>x" * 60_000


def connect(path):
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(30)
    line.connect(path)
    return line


def send(path, head, data, read=True):
    """Send a request; with `read` receive the whole answer."""
    with connect(path) as line:
        line.sendall(head.encode() + b"\r\n" + data)
        line.shutdown(socket.SHUT_WR)
        while read and line.recv(65536):
            pass
        return line if read else time.sleep(1)


def costly(path, draw):
    send(path, HEAD.format(len(COSTLY)), COSTLY)


def single_bytes(path, draw):
    with connect(path) as line:
        for byte in HEAD.format(2000).encode() + b"\r\n" + bytes(100):
            line.sendall(bytes([byte]))
            time.sleep(0.01)


def half_message(path, draw):
    size = draw.choice([1000, 30_000, 200_000, 5_000_000, 60 << 20])
    with connect(path) as line:
        line.sendall(HEAD.format(size).encode() + b"\r\n" + bytes(size // 2))
        time.sleep(draw.uniform(0, 3))


def many_sockets(path, draw):
    lines = []
    try:
        for _ in range(20):
            lines.append(connect(path))
        time.sleep(draw.uniform(0.5, 2))
    finally:
        for line in lines:
            line.close()


def invalid(path, draw):
    with connect(path) as line:
        line.sendall(
            draw.choice([b"", b"CHECK SPAMC/1.5\r\n", b"PING "]) + draw.randbytes(draw.choice([5, 5000]))
        )
        line.shutdown(socket.SHUT_WR)
        while line.recv(65536):
            pass


def long_lines(path, draw):
    with connect(path) as line:
        line.sendall(b"CHECK SPAMC/1.5\r\n" + (b"A: " + b"b" * 10_000 + b"\r\n") * 100)


def lesson(path, draw):
    data = draw.choice([b" ", b"a"]) * draw.choice([1 << 20, 30 << 20, 60 << 20])
    head = f"TELL SPAMC/1.5\r\nMessage-class: ham\r\nSet: local\r\nContent-length: {len(data)}\r\n"
    send(path, head, data)


def many_parts(path, draw):
    page = b"<p style='color:red'>%d" * 50 % tuple(draw.randrange(10**9) for _ in range(50))
    part = b"\n--b\nContent-Type: text/html; charset=utf-7\n\n" + page
    data = b"Content-Type: multipart/mixed; boundary=b\n" + part * draw.choice([20, 700, 20_000])
    send(path, HEAD.format(len(data)), data)


def small_and_costly(path, draw):
    data = b"Content-Type: text/html\n\n" + b"<a href=http://a.b/>x" * 1500
    send(path, HEAD.format(len(data)), data)


def no_reader(path, draw):
    data = mail("spam", draw.randrange(1000)) + bytes(1_000_000)
    send(path, f"PROCESS SPAMC/1.5\r\nContent-length: {len(data)}\r\n", data, read=False)


ATTACKS = (
    costly, costly, single_bytes, half_message, many_sockets, invalid, long_lines, no_reader,
    lesson, many_parts, small_and_costly,
)  # fmt: skip


def attack(path, seconds, names=()):
    """All hostile clients in this process; only attacks of these names, by default all."""
    os.nice(int(os.environ.get("NICE", "19")))  # the attack is on the server, not on this machine's processor
    end = time.monotonic() + seconds
    attacks = [each for each in ATTACKS if each.__name__ in names] or ATTACKS

    def work(number):
        draw, act = random.Random(number), attacks[number % len(attacks)]
        while time.monotonic() < end:
            with suppress(OSError):
                act(path, draw)
            time.sleep(0.01)

    for number in range(int(os.environ["NUMBER"]), HOSTILE, PROCESSES):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    print("all at work", flush=True)
    time.sleep(seconds)
    os._exit(0)


def ordinary(path, seconds):
    """Latencies in milliseconds of the ordinary clients, and the number that got no decision."""
    end, times, failed = time.monotonic() + seconds, [], []

    def work(number):
        draw = random.Random(number)
        while time.monotonic() < end:
            data, clock = mail(draw.choice(["spam", "ham"]), draw.randrange(1000)), time.perf_counter()
            try:
                ask(path, "CHECK SPAMC/1.5\r\n", data, 30)
                times.append(1e3 * (time.perf_counter() - clock))
            except Trouble as error:
                failed.append(str(error))
            time.sleep(0.1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(ORDINARY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(times), failed


class Memory(threading.Thread):
    """Measures memory of a process and its descendants every half second, pages in common counted once."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.most = process, 0.0
        self.start()

    def run(self):
        while self.process.poll() is None:
            self.most = max(self.most, sum(map(proportional, family(self.process.pid))))
            time.sleep(0.5)


def family(number):
    """Ids of a process and its descendants."""
    with suppress(OSError):
        threads = Path(f"/proc/{number}/task").iterdir()
        children = {child for each in threads for child in (each / "children").read_text().split()}
        return [number, *(each for child in children for each in family(int(child)))]
    return []


def proportional(number):
    """Memory of a process in MB, pages that n processes have in common as a part of n."""
    with suppress(OSError):
        lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
    return 0.0


def percentile(times, share):
    return times[min(len(times) - 1, int(share * len(times)))]


def main(seconds, *names):
    """Attack a new server; (p99 without attackers, p99 with them, failures, MB before, MB at most)."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        with process("-m", "textsvm", "mail", "serve", "--store", folder, socket=path) as server:
            for number in range(20):
                for kind in ("spam", "ham"):
                    ask(
                        path,
                        f"TELL SPAMC/1.5\r\nMessage-class: {kind}\r\nSet: local\r\n",
                        mail(kind, number),
                        60,
                    )
            used = Memory(server)
            control, _ = ordinary(path, max(1.0, seconds / 5))
            before = used.most
            command = [sys.executable, __file__, "attack", path, str(seconds + 1), *names]
            attackers = []
            for number in range(PROCESSES):
                environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "NUMBER": str(number)}
                attackers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
            for each in attackers:
                each.stdout.readline()
            time.sleep(0.5)
            times, failed = ordinary(path, seconds)
            for each in attackers:
                each.wait()
            most = used.most
            ask(path, "CHECK SPAMC/1.5\r\n", mail("ham", 1), 30)
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
    for name, each in (("without attackers", control), ("with attackers", times)):
        shares = ", ".join(f"{label} {percentile(each, share):.1f} ms" for label, share in SHARES)
        print(f"{name}: {shares} of {len(each)} messages")
    print(f"without a decision: {len(failed)} {failed[:1]}; memory {before:.0f} MB, at most {most:.0f} MB")
    return percentile(control, 0.99), percentile(times, 0.99), failed, before, most


SHARES = (("median", 0.5), ("p99", 0.99), ("longest", 1.0))
if __name__ == "__main__":
    if sys.argv[1] == "attack":
        attack(sys.argv[2], float(sys.argv[3]), sys.argv[4:])
    main(float(sys.argv[1]), *sys.argv[2:])
