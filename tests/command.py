"""The command line: its exit code, stdout and stderr.

`run` calls it in the process of the test. `run_apart` is for what a process of its own changes: streams that
are files, a limit of time. A server (this file, run as a program) has imported the package once and forks a
process for every command. `run_fresh` starts Python anew.
"""

import gc
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

from typer.main import get_command

from textsvm import cli
from textsvm.cli import console

ROOT = Path(__file__).resolve().parent.parent
REVIEWS = str(ROOT / "corpora" / "samples" / "reviews.csv")
READING = (REVIEWS, "--text", "text", "--label", "label")
#: Commands that the server has run before the first fork, in a folder of its own.
WARM = (
    ("--help",),
    ("train", *READING, "-o", "m"),
    ("predict", "m", *READING[:3]),
    ("evaluate", "m", *READING, "--report", "m.html"),
)


def run(*arguments, stdin=b"", cwd=None, **apart):
    """Run textsvm in this process; with further options of `run_apart` in another."""
    if apart:
        return run_apart(*arguments, stdin=stdin, cwd=cwd, **apart)
    argv, before = ["textsvm", *map(str, arguments)], os.getcwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", line_buffering=True) for _ in range(2))
    standard = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv, sys.stdin, sys.stdout, sys.stderr = argv, io.TextIOWrapper(io.BytesIO(stdin), "utf-8"), out, err
    os.chdir(cwd or before)
    try:
        code = console.main(_command(argv[1] if len(argv) > 1 else ""))
    except SystemExit as exit:
        code = exit.code or 0
    finally:
        os.chdir(before)
        sys.argv, sys.stdin, sys.stdout, sys.stderr = standard
    for stream in (out, err):
        stream.flush()
    return _lawful(subprocess.CompletedProcess(argv, code, out.buffer.getvalue(), err.buffer.getvalue()))


def _lawful(result):
    """The result of a command; an error has an exit code, and JSON has no NaN."""
    messages = result.stderr.decode().splitlines()
    if result.returncode == 0:
        assert not any(line.startswith("textsvm: ") for line in messages), messages
        if "--json" in result.args:
            texts = result.stdout.splitlines() if result.stdout[:1] == b"{" else [result.stdout]
            for text in texts if result.stdout[:1] in (b"{", b"[") else ():  # no model, no empty output
                json.loads(text, parse_constant=float.fromhex)  # ValueError for NaN
    return result


@cache
def _command(name):
    """Parser of a command, whose building is half the time of a short one, or of all commands."""
    known = name in cli.COMMANDS
    return get_command(cli.app_of([name] if known else cli.COMMANDS, known or name == "--"))


def run_apart(*arguments, stdin=b"", cwd=None, timeout=120, stdout=None, stderr=None, program="textsvm"):
    """Run textsvm (or `benchmarks`) in a process of its own; `stdout` and `stderr` are optional files."""
    if not hasattr(os, "fork"):
        return run_fresh(*arguments, stdin=stdin, cwd=cwd, timeout=timeout, program=program)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, "stdin")), stdout or f"{folder}/stdout", stderr or f"{folder}/stderr"]
        Path(files[0]).write_bytes(stdin)
        argv = [program, *map(str, arguments)]
        request = {"argv": argv, "cwd": str(cwd or os.getcwd()), "files": files, "timeout": timeout}
        server = _server()
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, f"the server of tests/command.py has ended with code {server.wait()}"
        code = int(answer)
        heard = (b"" if name in (stdout, stderr) else Path(name).read_bytes() for name in files[1:])
        return subprocess.CompletedProcess(argv, code, *heard)


def run_fresh(*arguments, stdin=b"", cwd=None, env=None, timeout=120, program="textsvm"):
    """Run textsvm (or `benchmarks`) in a new Python."""
    return subprocess.run(
        [sys.executable, "-m", program, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=ROOT if program == "benchmarks" else cwd,
        env={**os.environ, **(env or {})},
        timeout=timeout,
    )


def fails(*arguments, code=1, run=run, **options):
    """Run textsvm, expect one sentence on stderr and nothing on stdout; return the sentence."""
    result = run(*arguments, **options)
    message = result.stderr.decode()
    assert result.returncode == code, message
    assert result.stdout == b""
    assert "Traceback" not in message
    lines = [line for line in message.splitlines() if not line.startswith(("note:", "read "))]
    assert len(lines) == 1, message
    assert lines[0].startswith(f"{options.get('program', 'textsvm')}: ")
    return lines[0]


def works(*arguments, **options):
    """Run textsvm and expect it to work; the result."""
    result = run(*arguments, **options)
    assert result.returncode == 0, result.stderr.decode()
    return result


def printed_rows(*arguments, **options):
    """Run textsvm and expect it to work; the objects of the JSON Lines that it printed."""
    return [json.loads(line) for line in works(*arguments, **options).stdout.splitlines()]


def report(*arguments, **options):
    """Run textsvm with --json, expect it to work; what it printed."""
    return json.loads(works(*arguments, "--json", **options).stdout)


@cache
def _server():
    return subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def serve():
    """A forked process for each request on stdin; its exit code goes to stdout."""
    _warm()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
            try:
                code = _textsvm(request["argv"])
            except BaseException:
                sys.excepthook(*sys.exc_info())
                code = 1
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(code or 0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _warm():
    """Import and load what most commands need; what is there then no collection copies in a fork.

    A command that fails is reported, and does not end the server.
    """
    before, leave, failures = os.getcwd(), console.leave, []
    console.leave = sys.exit
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        os.chdir(folder)
        for arguments in WARM:
            try:
                code = _textsvm(["textsvm", *arguments])
            except Exception as error:
                code = repr(error)
            if code:
                failures.append(f"tests/command.py: textsvm {' '.join(arguments)}: {code}")
        os.chdir(before)
    console.leave = leave
    print(*failures, sep="\n", end="\n" * bool(failures), file=sys.stderr, flush=True)
    gc.collect()
    gc.freeze()


def _textsvm(argv):
    """Run the command line in this process; its exit code."""
    sys.argv = argv
    try:
        if argv[0] == "benchmarks":
            sys.path.insert(0, str(ROOT))
            from benchmarks.__main__ import main

            main()
        else:
            cli.main()
    except SystemExit as exit:
        if isinstance(exit.code, str):
            print(exit.code, file=sys.stderr)
            return 1
        return exit.code
    return 0


def _become(request):
    """Take the streams and the folder of a request, and end after its time."""
    signal.alarm(request["timeout"])
    os.chdir(request["cwd"])
    for number, name in enumerate(request["files"]):
        os.dup2(os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT), number)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, mode, closefd=False), encoding="utf-8", line_buffering=mode == "w")
        for number, mode in enumerate("rww")
    )


if __name__ == "__main__":
    serve()
