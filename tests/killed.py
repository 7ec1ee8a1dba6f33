"""Commands that meet a fault at their first call that writes, then at their second, and so on to their end.

    python tests/killed.py "killed before,killed in its midst"      the first table of reports/faults.md
    python tests/killed.py ENOSPC                                   the second

`Victim` does this inside of a process that has the shim of `kills.c` loaded before the C library; a faulty
command is a fork of it, which has everything imported and compiled.
"""

import ctypes
import errno
import io
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

HERE = Path(__file__).parent
_SPECTRUM = "--kernel spectrum:2"
#: What is tried, by what it writes; `model` and `corpus.tsv` are there.
COMMANDS = {
    "train": f"train corpus.tsv {_SPECTRUM} -o out.textsvm",
    "train, features": f"train corpus.tsv {_SPECTRUM} --solver features -o out.textsvm",
    "train --store": f"train corpus.tsv {_SPECTRUM} --solver gram --store kept -o out.textsvm",
    "tune": f"tune corpus.tsv {_SPECTRUM} -C 1,10 --folds 2 -o out.textsvm",
    "tune --resume": "tune corpus.tsv --p 2,3 -C 1,10 --folds 2 --resume out.tuning -o out.textsvm",
    "evaluate, HTML": "evaluate model corpus.tsv --report out.html",
    "evaluate, Markdown": "evaluate model corpus.tsv --report out.md",
    "evaluate, JSON": "evaluate model corpus.tsv --report out.json",
    "compare": "compare corpus.tsv --kernel spectrum:2 --report out.html",
    "cv": f"cv corpus.tsv {_SPECTRUM} --folds 2 --predictions out.jsonl",
    "doubts": f"doubts corpus.tsv {_SPECTRUM} -o out.jsonl --report out.html",
    "update": "update model more.tsv -o out.textsvm",
    "export": "export model --force -o out.bin",
    "export, JSON": "export model --force -o out.json",
    "export, page": "export model --force -o out.html",
    "export, C": "export model --to c --force -o out",
    "label --export": "label corpus.tsv --export out.jsonl",
    "explain": "explain model --top 3 -o out.tsv",
}
#: What takes a while, with the signals that end it; `long.jsonl` is there.
LONG = {
    "train": ("train long.jsonl --kernel gap -o out.textsvm", [signal.SIGTERM, signal.SIGHUP]),
    "tune": ("tune long.jsonl --kernel gap --folds 2 -o out.textsvm", [signal.SIGTERM, signal.SIGINT]),
    "predict": ("predict model - --format lines", [signal.SIGTERM, signal.SIGINT]),
}
#: How `fault_at` of the shim is told.
KINDS = {"killed before": 0, "killed in its midst": -1}
KINDS |= {name: getattr(errno, name) for name in ("ENOSPC", "EIO", "EROFS")}
#: Names of files that are not written to their end.
_TEMPORARY = re.compile(r"\..+\.\d+\.[a-z0-9_]{8}\.tmp")


class Victim:
    """A command in a folder that is its own.

    Parameters
    ----------
    folder : Path
        What the command reads is there.
    command : str
    """

    def __init__(self, folder, command):
        self.folder, self.words = folder, command.split()
        self.shim = ctypes.CDLL(None)
        self.calls = ctypes.c_long.from_buffer(mmap.mmap(-1, ctypes.sizeof(ctypes.c_long)))
        os.chdir(folder)
        self.before = files(".")
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said, suppress(SystemExit):
            from textsvm import cli

            sys.argv = ["textsvm", *self.words]
            cli.main()  # what it needs is compiled now
        self.clear()
        code, said = self.run(-1, 0)
        assert code == 0, said
        self.new = self.there()
        self.count = self.calls.value
        assert self.new
        self.clear()

    def there(self):
        """What is there besides what the command reads."""
        return {name: data for name, data in files(".").items() if name not in self.before}

    def clear(self):
        """Have the folder as it was, but for what is read."""
        for each in Path(".").iterdir():
            if each.name not in {name.split("/")[0] for name in self.before}:
                shutil.rmtree(each) if each.is_dir() else each.unlink()

    def put(self, found):
        """Have these files there."""
        self.clear()
        for name, data in found.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(data)

    def run(self, point, kind, words=None):
        """The exit code of a run, or less the signal that ended it, and what it said."""
        self.calls.value = 0
        with tempfile.TemporaryFile("w+", dir="/dev/shm") as said:
            process = os.fork()
            if process == 0:
                become(said, words or self.words)
                self.shim.fault_at(point, kind, ctypes.byref(self.calls))
                end()
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            said.seek(0)
            return code, said.read()

    def fault(self, point, kind, over):
        """What a fault left.

        Parameters
        ----------
        point : int
            Of its calls that write, from 1.
        kind : str
            Of `KINDS`.
        over : bool
            Whether the files are there already, of other contents.

        Returns
        -------
        dict
        """
        old = {name: old_of(name, self.new[name]) for name in self.new if over and not name.endswith(".rows")}
        self.put(old)
        code, said = self.run(point, KINDS[kind])
        left = self.there()
        beside = [name for name in left if _TEMPORARY.fullmatch(Path(name).name)]
        states = [state(name, left.get(name), old.get(name), self.new[name]) for name in self.new]
        again, words = self.finish(left) if left != old else (0, "")  # as it was: any run would do
        return {
            "point": point, "kind": kind, "code": code, "said": said, "beside": beside, "states": states,
            "again": again, "cleared": left == old or sorted(self.there()) == sorted(self.new),
            "words": words,
            "third": [n for n, s in zip(self.new, states, strict=True) if s not in ("old", "new")],
        }  # fmt: skip

    def finish(self, left):
        """The exit code of the next run of the same command, and what it said; of a search, going on."""
        table = "out.textsvm.tuning"
        code, said = self.run(-1, 0)
        if code == 2 and table in left:  # nothing that was found is thrown away unasked
            code, said = self.run(-1, 0, [*self.words, "--resume", table])
            Path(table).unlink()
        if code == 0 and any(
            state(name, data, None, self.new.get(name)) != "new" for name, data in self.there().items()
        ):
            code = "not the same"
        return code, said


def ended_by(number, words):
    """What came of a command that a signal ended while it was at work."""
    before = files(".")
    waiting, writing = os.pipe()
    os.write(writing, b"a line\n")
    with tempfile.TemporaryFile("w+", dir="/dev/shm") as said:
        process = os.fork()
        if process == 0:
            os.dup2(waiting, 0)
            sys.stdin = open(0)  # noqa: SIM115 (until the end)
            become(said, words)
            os.dup2(2, 1)
            sys.stdout = open(1, "w", buffering=1)  # noqa: SIM115
            end()
        heard = b""
        while not re.search(rb"exact copies|label", heard) and not os.waitpid(process, os.WNOHANG)[0]:
            time.sleep(0.02)
            heard = os.pread(said.fileno(), 1 << 20, 0)  # the place in the file is the child's too
        time.sleep(0.3)
        os.kill(process, number)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        said.seek(0)
        left = {name: len(data) for name, data in files(".").items() if name not in before}
        os.close(writing)
        return {"code": code, "said": said.read(), "left": left}


def become(said, words):
    """Be a process of its own that runs these words and is heard there."""
    signal.alarm(60)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    null = open(os.devnull, "w")  # noqa: SIM115 (until the end)
    os.dup2(null.fileno(), 1)
    os.dup2(said.fileno(), 2)
    sys.stdout, sys.stderr = null, open(2, "w", buffering=1)  # noqa: SIM115
    sys.argv = ["textsvm", *words]


def end():
    """Run the command of `sys.argv`, and end as it does."""
    from textsvm import cli

    try:
        cli.main()
    except SystemExit as left:
        os._exit(left.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(99)
    os._exit(0)


def files(folder):
    """Contents by names."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and path.name != ".lock":
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def old_of(name, data):
    """Another file of the same kind; what is gone on with, the manifests of a store among them, the same."""
    if name.startswith("kept/"):
        return data
    if name.endswith(".tuning"):
        return data[: len(data) * 2 // 3]  # cut off in a line
    return data[:-1] + bytes([data[-1] ^ 1])


def state(name, now, old, new):
    """old, new (of files that have times in them: from its first to its last byte), or what is there."""
    if now == old:
        return "old"
    if now is None or new is None:
        return "gone" if now is None else "beside"
    if now == new:
        return "new"
    same_ends = now[:9] == new[:9] and now[-6:] == new[-6:] and len(now) > len(new) * 0.9
    if name.endswith((".html", ".md", ".json", ".textsvm")) and same_ends:
        return "new"
    if name.endswith(".tuning"):
        return (
            "new" if settings(now) == settings(new) else "old" if settings(now) < settings(new) else "other"
        )
    return f"{len(now)} bytes"


def settings(data):
    """What a record of a search has found, times left out; lines come one by one, and one may be cut off."""
    found = set()
    for line in data.splitlines()[1:]:
        with suppress(ValueError):
            row = json.loads(line)
            found.add((row["setting"], json.dumps(row["folds"])))
    return found


def prepare(folder):
    """What the commands read."""
    from textsvm import SVC, cli, save, tune  # noqa: F401 (imported before the first fork)
    from textsvm.readers import sample
    from textsvm.readers.read import read_corpus

    corpus = read_corpus(sample("reviews"))
    rows = list(zip(corpus.labels, corpus.texts, strict=True))[:40]
    lines = ["label\ttext\n", *(f"{label}\t{' '.join(text.split())}\n" for label, text in rows)]
    (folder / "corpus.tsv").write_text("".join(lines[:31]), "utf-8")
    (folder / "more.tsv").write_text("".join([lines[0], *lines[31:]]), "utf-8")
    documents = [{"text": f"{i // 4} " + "the quick brown fox " * 150, "label": i % 2} for i in range(900)]
    (folder / "long.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    os.chdir(folder)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(SystemExit):
        sys.argv = ["textsvm", *f"train corpus.tsv {_SPECTRUM} -o model".split()]
        cli.main()


def serve():
    """A line of JSON on stdin asks for a command, a kind and a number of points; one on stdout answers."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        place = Path(folder, "work")
        place.mkdir()
        prepare(place)
        for line in sys.stdin:
            name, kinds, sample = json.loads(line)
            if isinstance(kinds, int):
                answer = ended_by(kinds, LONG[name][0].split())
            else:
                answer = faults(place, name, kinds, sample)
            answers.write(json.dumps(answer) + "\n")


def faults(place, name, kinds, sample):
    """What came of the faults of a command; `sample`: of so many, of all kinds in turns."""
    begun = time.perf_counter()
    victim = Victim(place, COMMANDS[name])
    if sample is None:
        wanted = [
            (point, kind, over)
            for kind in kinds
            for point in range(1, victim.count + 1)
            for over in ((False, True) if KINDS[kind] <= 0 else [point % 2 == 0])
        ]
    else:
        wanted = [
            (
                1 + round(i * (victim.count - 1) / (sample - 1)),
                kinds[(i + len(name)) % len(kinds)],
                i % 2 == 0,
            )
            for i in range(sample)
        ]
    found = [victim.fault(*one) for one in wanted]
    victim.clear()
    seconds = time.perf_counter() - begun
    return {"words": victim.words, "calls": victim.count, "found": found, "seconds": seconds}


def build(folder):
    """The shim, compiled; None where it cannot be."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    made = Path(folder, "kills.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, HERE / "kills.c", "-ldl"], check=True)
    return made


def started(shim):
    """The server, see `serve`."""
    return subprocess.Popen(
        [sys.executable, __file__, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "LD_PRELOAD": str(shim)},
    )  # fmt: skip


def ask(server, name, kinds, sample=None):
    """What came of the faults of a command, or of a signal."""
    server.stdin.write(json.dumps([name, kinds, sample]) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def row(name, answer):
    """Of the table: the command, calls, faults, how often it failed, with a sentence, what there was then."""
    found = answer["found"]
    states = [each for one in found for each in one["states"]]
    failed = [one["said"].splitlines()[-1:] for one in found if one["code"] == 1]
    return [
        name, answer["calls"], len(found), sum(one["code"] != 0 for one in found),
        sum(len(lines) == 1 and lines[0].startswith("textsvm: ") for lines in failed),
        states.count("old"), states.count("new"), sum(len(one["third"]) for one in found),
        sum(bool(one["beside"]) for one in found),
        sum(one["cleared"] and one["again"] == 0 for one in found), f"{answer['seconds']:.0f}",
    ]  # fmt: skip


def main(kinds, *names):
    """Print the table; `kinds`: how they are spelled in `KINDS`, with commas."""
    with tempfile.TemporaryDirectory() as folder:
        server = started(build(folder))
        for name in names or COMMANDS:
            answer = ask(server, name, kinds.split(","))
            print("| " + " | ".join(map(str, row(name, answer))) + " |", flush=True)
            for one in answer["found"]:
                if one["third"] or not one["cleared"] or one["again"] != 0:
                    print(json.dumps(one), file=sys.stderr, flush=True)
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main(*sys.argv[1:])
