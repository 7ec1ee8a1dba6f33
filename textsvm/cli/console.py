"""What every command shares: progress and messages on stderr, results on stdout."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from textsvm.cli import signals
from textsvm.errors import InputError, json_escaped, one_line, printable
from textsvm.runtime import compiled

if TYPE_CHECKING:
    from textsvm.runtime.device import Device

STAGES = {
    "read": "reading",
    "encode": "encoding",
    "choose": "choosing a kernel",
    "compile": "loading GPU kernels",
    "features": "features",
    "gram": "kernel matrix",
    "solve": "solving",
    "duplicates": "near-duplicates",
    "predict": "predicting",
    "explain": "explaining",
    "compare": "comparing",
    "learn": "learning",
    "neighbours": "comparing",
    "tune": "tuning",
}

#: Typer's exit code after Ctrl-C.
INTERRUPTED = 130
#: What errors of the system say that are for want of main memory: of a library, of a thread, of anything.
_NO_MEMORY = ("failed to map segment", "can't start new thread", "Cannot allocate memory")
#: What writing to a full disk, or beyond one's share of it, fails with.
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
#: How many lines of JSON have gone to stdout.
_printed = count()


class WrongUsage(InputError):
    """A command was called with arguments that cannot be (exit code 2)."""


class Console:
    """Messages and progress bars on stderr; nothing of either with `quiet`, no bars in a pipe.

    Where an output itself goes to stdout (`stdout_taken`), what is reported goes to stderr too.
    """

    def __init__(self, quiet: bool = False, stdout_taken: bool = False) -> None:
        from rich.console import Console as RichConsole

        class Stderr(RichConsole):
            def on_broken_pipe(self) -> None:
                """Nobody reads the messages any more; the work goes on."""
                self.quiet = True

        self.stderr = Stderr(stderr=True, highlight=False, soft_wrap=True)
        self.stdout = RichConsole(stderr=stdout_taken, quiet=quiet and stdout_taken, highlight=False)
        self._stdout_taken = stdout_taken
        self.quiet = quiet
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._shown = ""
        compiled.warn = lambda message: self.say(f"note: {message}")

    def say(self, message: str) -> None:
        """A line on stderr."""
        if not self.quiet:
            with _even_if_unheard():
                self.stderr.print(one_line(message), markup=False)

    def say_waiting(self, what: str) -> None:
        """What is waited for, where somebody is to type it."""
        if sys.stdin is not None and sys.stdin.isatty():
            self.say(f"note: waiting for {what} on standard input; Ctrl-D ends it")

    def fail(self, error: InputError) -> None:
        """A line on stderr for what did not work where the rest goes on; the exit code is the caller's."""
        self.flush()
        _fail(str(error), 1)

    def flush(self) -> None:
        """Have what was printed reach who reads it."""
        sys.stdout.flush()

    def say_device(self, device: Device) -> None:
        """Which device did the work, and why not a GPU."""
        self.say(f"device: {device.description}" + (f"; no GPU: {device.no_gpu}" if device.no_gpu else ""))

    def line(self, text: str) -> None:
        """A line on stdout, without markup."""
        self.stdout.print(printable(text), markup=False, soft_wrap=True)

    @contextmanager
    def progress(self, beside_stdout: bool = False) -> Iterator[None]:
        """Draw a bar with an ETA for each stage that reports through `stage` inside the block.

        `beside_stdout`: not where results appear on the same terminal one by one, which show how far it is.
        """
        if self.quiet or not self.stderr.is_terminal or (beside_stdout and sys.stdout.isatty()):
            yield
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Eta

        from textsvm.runtime import device

        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
            TimeElapsedColumn(), TextColumn("ETA"), Eta(),
        )  # fmt: skip
        device.on_load = lambda source: self.stage("compile", 0, 1)
        try:
            # The speed is that of ten minutes: an estimate of the whole must not jump with every stage.
            with Progress(
                *columns, console=self.stderr, transient=True, speed_estimate_period=600
            ) as self._bars:
                yield
        finally:
            self._bars, self._tasks, self._shown, device.on_load = None, {}, "", None

    @contextmanager
    def kept_in(self, store: Any) -> Iterator[None]:
        """Say where what was made inside the block is kept, if it is interrupted and there is a store."""
        try:
            yield
        except KeyboardInterrupt:
            if store is not None:
                self.say(f"note: what was made of the kernel matrix is in {store}; the same command goes on")
            raise

    @contextmanager
    def warnings(self) -> Iterator[None]:
        """Say what the numerics warn of inside the block, at once."""
        import warnings

        from textsvm.errors import RareClassWarning

        def show(message: Warning | str, *where: object, **more: object) -> None:
            kind = "note" if isinstance(message, RareClassWarning) else "warning"
            self.say(f"{kind}: {message}".replace("group_duplicates", "--group-duplicates"))

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # convergence, leakage
            warnings.showwarning = show
            yield

    def stage(self, stage: str, done: float, total: float) -> None:
        """A progress callback for the numerics."""
        if self._bars is None:
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(STAGES.get(stage, stage), total=total)
        bar = self._tasks[stage]
        if done < self._bars.tasks[bar].completed:  # the stage comes again, as for the next kernel of a grid
            self._bars.reset(bar)
        self._bars.update(bar, completed=done, total=total)
        if stage != self._shown:
            self._shown = stage
            for other in self._tasks.values():
                self._bars.update(other, visible=other == bar)

    def reading(self, done: float, total: float) -> None:
        """A progress callback for the readers."""
        self.stage("read", done, total)

    def table(self, title: str, rows: Sequence[tuple[str, ...]], header: tuple[str, ...] = ()) -> None:
        """A table on stdout: names and their values, or under a header a name and right-aligned figures."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        self.stdout.print(Text(printable(title), style="bold"), soft_wrap=True)
        for columns in _fitting(rows, header, self.stdout.width) if header else [range(max(map(len, rows)))]:
            table = Table(show_header=bool(header), box=box.SIMPLE)
            for i in columns:
                name = Text(printable(header[i])) if header else ""
                figures = bool(i and header)
                table.add_column(
                    name, justify="right" if figures else "left", overflow="fold", no_wrap=False,
                    min_width=_least(rows, header, i) if figures else _name_width(rows, header),
                )  # fmt: skip
            for row in rows:
                table.add_row(*(Text(printable(row[i])) if i < len(row) else "" for i in columns))
            self.stdout.print(table)

    def print_json(self, value: dict[str, Any]) -> None:
        """One JSON object on a line of stdout: in UTF-8, or in ASCII where stdout has another code."""
        stream = sys.stderr if self._stdout_taken else sys.stdout
        text = json_escaped(json.dumps(value, ensure_ascii=False))
        try:
            text.encode("utf-8" if (stream.encoding or "utf-8").lower() in ("utf-8", "utf8") else "ascii")
        except UnicodeEncodeError:  # a pipe on Windows, which has a code page; a lone surrogate
            text = json.dumps(value)
        next(_printed)  # first: whoever reads the line may end the process
        stream.write(text + "\n")


#: Of a table's first column as many symbols as this are on a line, however narrow the terminal is.
_NAME = 16


def _least(rows: Sequence[tuple[str, ...]], header: tuple[str, ...], i: int) -> int:
    """Symbols that a column of figures needs: they and the words of its header stay whole."""
    return max(map(len, [row[i] for row in rows if i < len(row)] + (header[i].split() or [""])))


def _name_width(rows: Sequence[tuple[str, ...]], header: tuple[str, ...]) -> int | None:
    """Symbols of a table's first column that are on one line at least."""
    return min(max(len(row[0]) for row in rows), _NAME) if header else None


def _fitting(rows: Sequence[tuple[str, ...]], header: tuple[str, ...], width: int) -> list[list[int]]:
    """The columns of one table, or where a terminal is too narrow for it of several, each with the names."""
    name = max(_name_width(rows, header) or 0, 4) + 4
    tables, taken = [[0]], name
    for i in range(1, len(header)):
        taken += _least(rows, header, i) + 2
        if taken > width and len(tables[-1]) > 1:
            tables.append([0])
            taken = name + _least(rows, header, i) + 2
        tables[-1].append(i)
    return tables


def json_line(value: dict[str, Any] | str) -> str:
    """One JSON value as a line of a file in UTF-8."""
    return json_escaped(json.dumps(value, ensure_ascii=False)) + "\n"


def main(app: typer.Typer) -> int:
    """Run the command line; every failure becomes one sentence on stderr and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    usage_error: Any = typer.BadParameter.__mro__[2]  # ClickException, wherever this Typer keeps it
    try:
        code = app(prog_name="textsvm", standalone_mode=False)
        sys.stdout.flush()
    except WrongUsage as error:
        return _fail(str(error), 2)
    except InputError as error:
        return _fail(str(error), 1)
    except usage_error as error:
        message = error.format_message()  # none where no command was given and the help was shown
        return _fail(f"{message} (see textsvm --help)", 2) if message else 2
    except (KeyboardInterrupt, typer.Abort):
        return interrupted()
    except BrokenPipeError:
        # The reader of our output has gone (head, less): nothing to say, and nothing to flush at exit.
        sys.stdout = None
        return 1
    except Exception as error:
        message = _environment_error(error)
        if message is None:
            raise
        return _fail(message, 1)
    if code == INTERRUPTED:
        return interrupted()
    return code if isinstance(code, int) else 0


def _environment_error(error: BaseException) -> str | None:
    """User message for an environment error; None for a bug."""
    from textsvm.runtime.device import gpu_error

    if message := gpu_error(error, "the GPU"):
        return str(message)
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    for cause in causes:
        if isinstance(cause, MemoryError) or any(said in str(cause) for said in _NO_MEMORY):
            why = str(cause) or "no more could be had"
            return f"out of main memory ({why}); lower --memory, use fewer documents or give it more"
    if not isinstance(error, OSError):
        return None
    where = error.filename or ("standard output" if error.errno in _FULL else "input/output")
    return f"{where}: {error.strerror or error}"


def interrupted() -> int:
    """Say what there is of the output after a signal; its exit code."""
    lines, number = next(_printed), signals.came()
    how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    were = f"{lines:,} lines of output were" if lines > 1 else "1 line of output was"
    return _fail(f"{how}; {were if lines else 'no output was'} written", 128 + number)


def leave(code: int) -> NoReturn:
    """End at once: at an ordinary exit Python waits for threads, and theirs may be minutes of work."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def open_closed() -> None:
    """Have all standard streams: a file that we open would get the number of one that is closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8")  # noqa: SIM115 (until the end)
            setattr(sys, name, stream)


@contextmanager
def _even_if_unheard() -> Iterator[None]:
    """Go on where nothing can be said any more, as on a full disk; the work is not lost by that."""
    try:
        yield
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 (until the end)


def _fail(message: str, code: int) -> int:
    with _even_if_unheard():
        print("textsvm: " + one_line(message), file=sys.stderr, flush=True)
    return code
