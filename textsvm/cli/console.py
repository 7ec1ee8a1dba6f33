"""Console of the commands: results on stdout, progress and messages on stderr, errors, signals."""

from __future__ import annotations

import _thread
import errno
import json
import math
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import typer

try:
    from typer import TyperException as USAGE_ERROR
except ImportError:  # Typer before 0.29, which is built on Click
    from click import ClickException as USAGE_ERROR  # type: ignore[assignment]

from textsvm.errors import InputError, RareClassWarning, json_escaped, one_line, printable
from textsvm.reporting.tables import json_line as json_line

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.progress import Progress, TaskID

    from textsvm.arrays import Json
    from textsvm.runtime.device import Device

STAGES = {
    "read": "reading",
    "encode": "encoding",
    "count": "counting",
    "choose": "choosing a kernel",
    "compile": "loading GPU kernels",
    "gram": "kernel matrix",
    "solve": "solving",
    "duplicates": "near-duplicates",
    "predict": "predicting",
    "explain": "explaining",
    "compare": "comparing",
    "tune": "tuning",
}

_json = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes an encoder for each line
INTERRUPTED = 130  #: Exit code of Typer after Ctrl-C.
#: Exit code if the reader of the output has ended (head, less): 128 + SIGPIPE, as of other Unix tools.
CLOSED_PIPE = 141
#: Parts of error messages of the system that mean a lack of main memory.
_NO_MEMORY = ("failed to map segment", "can't start new thread", "Cannot allocate memory")
#: Error numbers of writing to a full disk or beyond a quota.
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_printed = count()  #: Counter of JSON lines written to stdout.
DECIMALS = "decimals have a point, as in 0.5"  #: End of messages about numbers with a decimal comma.


class WrongUsage(InputError):
    """Invalid command-line arguments (exit code 2)."""


def usage_message(error: USAGE_ERROR) -> str:
    """Message of a USAGE_ERROR and the help to see; empty if the help was shown for lack of a command."""
    message = error.format_message().replace("Value error, ", "", 1)  # a prefix from pydantic
    if wrong := re.match(r"Invalid value for (.*): Input should be ([^,]*)", message):
        value = str(error.__cause__).partition("input_value=")[2].partition(", input_type")[0].strip("'")
        name, rule = wrong[1].replace("'", ""), wrong[2].replace("greater than or equal to", "at least")
        message = f"{name} must be {rule}, got {value}"
    message = re.sub(r"(valid number.*)", rf"\1; {DECIMALS}", message)
    context = getattr(error, "ctx", None)  # of errors about arguments
    return message and f"{message} (see {context.command_path if context else 'textsvm'} --help)"


@contextmanager
def wrong_usage(prefix: str = "") -> Iterator[None]:
    """Turn an InputError of the block into WrongUsage, with a prefix that names the option."""
    try:
        yield
    except InputError as error:
        raise WrongUsage(f"{prefix}{error}") from error


def device_line(device: Device) -> str:
    """Description of a device, and why the card of this machine is not used."""
    from textsvm.runtime.device import has_card

    advice = f"; no GPU: {device.no_gpu}" if device.no_gpu and has_card() else ""
    return f"device: {device.description}{advice}"


class Console:
    """Messages and progress bars on stderr (none with `quiet`, no bars in a pipe), reports on stdout.

    If a command writes its output file to stdout (`stdout_taken`), reports go to stderr too.
    """

    def __init__(self, quiet: bool = False, stdout_taken: bool = False) -> None:
        from rich.console import Console as RichConsole

        from textsvm.runtime import compiled

        class Stderr(RichConsole):
            def on_broken_pipe(self) -> None:
                """Continue without messages."""
                self.quiet = True

        self.stderr = Stderr(stderr=True, highlight=False, soft_wrap=True)
        self.stdout = RichConsole(stderr=stdout_taken, quiet=quiet and stdout_taken, highlight=False)
        self._stdout_taken, self.quiet = stdout_taken, quiet
        self.warned: list[str] = []  #: Warnings that were printed
        self.counts = True  # whether lines of output are counted
        self.notes = 5  # most notes on reading that are printed
        self.seconds: dict[str, float] = {}  #: Wall time of the stages of the command so far
        self._started = self._clock = time.perf_counter()
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._shown = ""
        compiled.warn = lambda message: self.say(f"note: {message}")
        compiling = (
            "note: compiling for this processor: some seconds to a minute, once for each kind of kernel"
        )
        compiled.on_compile = lambda: self.say(compiling)

    def say(self, *messages: str) -> None:
        """Print lines to stderr."""
        for message in () if self.quiet else messages:
            with _ignore_write_errors():
                self.stderr.print(one_line(message), markup=False)

    def warn(self, *messages: str) -> None:
        """Print warnings to stderr, also with `quiet`, but each once."""
        for message in messages:
            if message not in self.warned:
                self.warned.append(message)
                with _ignore_write_errors():
                    self.stderr.print(f"warning: {one_line(message)}", markup=False)

    def lap(self, stages: str | Mapping[str, float]) -> dict[str, float]:
        """Add the time since the last call to a stage, or to stages with measured seconds.

        Returns the seconds of all stages so far, and "total".
        """
        now = time.perf_counter()
        for stage, spent in ({stages: now - self._clock} if isinstance(stages, str) else stages).items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
        self._clock = now
        return {**self.seconds, "total": now - self._started}

    def say_device(self, device: Device) -> None:
        """Print the device that did the work (`device_line`)."""
        self.say(device_line(device))

    def line(self, text: str) -> None:
        """Print a line to stdout, without markup."""
        self.stdout.print(printable(text), markup=False, soft_wrap=True)

    @contextmanager
    def progress(self, beside_stdout: bool = False) -> Iterator[None]:
        """Draw a bar with an ETA for each stage that reports through `stage` inside the block.

        `beside_stdout`: draw none if results appear on the same terminal line by line.
        """
        if self.quiet or not self.stderr.is_terminal or (beside_stdout and sys.stdout.isatty()):
            yield
            return
        from rich import progress

        from textsvm.runtime import device

        columns = (
            progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(), progress.TextColumn("ETA"), progress.TimeRemainingColumn(),
        )  # fmt: skip
        device.on_load = lambda source: self.stage("compile", 0, 1)
        try:
            # Estimate the speed over ten minutes, so that the ETA does not jump with every stage.
            with progress.Progress(
                *columns, console=self.stderr, transient=True, speed_estimate_period=600
            ) as self._bars:
                yield
        finally:
            self._bars, self._tasks, self._shown, device.on_load = None, {}, "", None

    @contextmanager
    def work(self, store: str | os.PathLike[str] | None = None) -> Iterator[None]:
        """Progress bars and warnings inside the block; an interrupt names the store that keeps the work."""
        try:
            with self.progress(), self.warnings():
                yield
        except KeyboardInterrupt:
            if store is not None:
                message = f"the computed part of the kernel matrix is in {store}"
                self.say(f"note: {message}; the same command continues")
            raise

    @contextmanager
    def warnings(self, command: str = "") -> Iterator[None]:
        """Print Python warnings of the block to stderr; `command` is named before the options they advise."""

        def show(message: Warning | str, *where: object, **more: object) -> None:
            advice = str(message).replace("group_duplicates", f"{command}--group-duplicates")
            self.say(f"note: {advice}") if isinstance(message, RareClassWarning) else self.warn(advice)

        with warnings.catch_warnings(action="always", category=UserWarning):  # convergence, leakage
            warnings.showwarning = show
            yield

    def stage(self, stage: str, done: float, total: float) -> None:
        """Progress callback of the numerical functions."""
        if self._bars is None:
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(STAGES.get(stage, stage), total=total)
        bar = self._tasks[stage]
        if done < self._bars.tasks[bar].completed:  # the stage starts again, as for the next kernel of a grid
            self._bars.reset(bar)
        self._bars.update(bar, completed=done, total=total)
        if stage != self._shown:
            self._shown = stage
            for other in self._tasks.values():
                self._bars.update(other, visible=other == bar)

    def progress_of(self, stage: str) -> Callable[[float, float], None]:
        """Progress callback of a function with a single stage."""
        return partial(self.stage, stage)

    def table(self, title: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> None:
        """Print a table to stdout: names and values, or with a header names and right-aligned numbers.

        A last column without any value is left out.
        """
        from rich import box
        from rich.table import Table
        from rich.text import Text

        self.stdout.print(Text(printable(title), style="bold"), soft_wrap=True)
        last = -1 if header and not any(row[-1] for row in rows) else None
        header, rows = [*map(printable, header[:last])], [[*map(printable, row[:last])] for row in rows]
        plain: list[dict[int, int | None]] = [dict.fromkeys(range(max(map(len, rows))))]
        for columns in _fitting(rows, header, self.stdout.width) if header else plain:
            table = Table(show_header=bool(header), box=box.SIMPLE)
            for i, width in columns.items():
                justify: JustifyMethod = "right" if i and header else "left"
                name = Text(header[i]) if header else ""
                table.add_column(name, justify=justify, overflow="fold", width=width)
            for row in rows:
                table.add_row(*(Text(row[i]) if i < len(row) else "" for i in columns))
            self.stdout.print(table)

    def print_json(self, value: Json) -> None:
        """Print a JSON object as a line, in ASCII if stdout is not UTF-8."""
        self.print_json_lines([value])

    def print_json_lines(self, values: Sequence[Json]) -> None:
        """Print JSON objects as lines, in ASCII if stdout is not UTF-8."""
        stream = sys.stderr if self._stdout_taken else sys.stdout
        text = json_escaped("".join(f"{_json(value)}\n" for value in values))
        try:
            text.encode("utf-8" if (stream.encoding or "utf-8").lower() in ("utf-8", "utf8") else "ascii")
        except UnicodeEncodeError:  # a code page of Windows, or a lone surrogate
            text = json_escaped("".join(f"{json.dumps(value)}\n" for value in values))
        for _ in values:
            self.count()  # first, because the reader of the line may end the process
        stream.write(text)

    def count(self) -> None:
        """Count a line of output; a file of `predict -o` is written as a whole, or not at all."""
        if self.counts:
            count_line()


#: Cells and words of a header that are longer are broken if a table is too wide; numbers are shorter.
_CELL, _WORD = 24, 16


def _fitting(rows: Sequence[Sequence[str]], header: Sequence[str], width: int) -> Iterator[dict[int, int]]:
    """Columns of each table and their widths: several tables, each with the names, on a narrow terminal.

    Numbers are never broken. Rich adds two spaces and a divider to each column, and an edge to the table.
    """
    from rich.cells import cell_len

    cells = [[cell_len(row[i]) for row in rows if i < len(row)] or [0] for i in range(len(header))]
    full = [max(cell_len(name), *widths) for name, widths in zip(header, cells, strict=True)]
    least = [min(full[0], _WORD)]
    for name, widths in zip(header[1:], cells[1:], strict=True):
        word = max(map(cell_len, name.split()), default=0)
        least.append(min(max(min(word, _WORD), min(max(widths), _CELL)), max(1, width - 7 - least[0])))
    tables = [[0]]
    for i in range(1, len(header)):
        if 1 + sum(least[j] + 3 for j in [*tables[-1], i]) > width and len(tables[-1]) > 1:
            tables.append([0])
        tables[-1].append(i)
    for columns in tables:
        spare, fitted = max(0, width - 1 - sum(least[i] + 3 for i in columns)), dict[int, int]()
        for i in columns:
            fitted[i] = min(full[i], least[i] + spare)
            spare -= fitted[i] - least[i]
        yield fitted


def main(app: Callable[..., object]) -> int:
    """Run the command line; a failure becomes a sentence on stderr and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with errors_after_signals():
            code = app(prog_name="textsvm", standalone_mode=False)
            sys.stdout.flush()
    except WrongUsage as error:
        return _fail(str(error), 2)
    except InputError as error:
        return _fail(str(error), 1)
    except USAGE_ERROR as error:
        return _fail(message, 2) if (message := usage_message(error)) else 2
    except (KeyboardInterrupt, typer.Abort):
        return interrupted()
    except (BrokenPipeError, SystemExit) as error:
        # Typer and Rich turn a closed pipe into SystemExit(1).
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        sys.stdout = None  # no flush at exit
        return CLOSED_PIPE
    except Exception as error:
        if sentence := environment_error(error):
            return _fail(sentence, 1)
        raise
    if code == INTERRUPTED:
        return interrupted()
    return code if isinstance(code, int) else 0


def environment_error(error: BaseException) -> str | None:
    """User message for an environment error; None for a bug."""
    if "cupy" in sys.modules:
        from textsvm.runtime.device import gpu_error

        if message := gpu_error(error, "the GPU"):
            return str(message)
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    for cause in causes:
        if isinstance(cause, MemoryError) or any(text in str(cause) for text in _NO_MEMORY):
            return (
                f"out of main memory ({str(cause) or 'allocation failed'}); lower --memory, use fewer "
                "documents or give it more"
            )
    if not isinstance(error, OSError):
        return None
    place = error.filename or ("standard output" if error.errno in _FULL else "input/output")
    return f"{place}: {error.strerror or error}"


@contextmanager
def errors_after_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt in place of an error after a signal that interrupted a library: it follows."""
    try:
        yield
    except Exception as error:
        if _signals:
            raise KeyboardInterrupt from error
        raise


def count_line() -> None:
    """Count a line of output, for the message of `interrupted`."""
    next(_printed)


def interrupted() -> int:
    """Report the amount of output after a signal; returns the exit code."""
    lines = next(_printed)
    number = _signals[0][0] if _signals else signal.SIGINT
    how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    were = f"{lines:,} lines of output were" if lines > 1 else "1 line of output was"
    return _fail(f"{how}; {were if lines else 'no output was'} written", 128 + number)


def leave(code: int) -> NoReturn:
    """Exit at once: an ordinary exit waits for threads, which may work for minutes."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def open_closed() -> None:
    """Open closed standard streams, so that no other file gets their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8")  # noqa: SIM115 (until the end)
            setattr(sys, name, stream)


@contextmanager
def _ignore_write_errors() -> Iterator[None]:
    """Continue without messages if stderr cannot be written, as on a full disk."""
    try:
        yield
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 (until the end)


def print_error(message: str) -> None:
    """Print an error to stderr; the caller sets the exit code."""
    with _ignore_write_errors():
        print("textsvm: " + one_line(message), file=sys.stderr, flush=True)


def _fail(message: str, code: int) -> int:
    print_error(message)
    return code


_signals: list[tuple[signal.Signals, float]] = []  #: Signals received so far, with their times in seconds.
#: A repeated signal within so many seconds, as `timeout` and terminals send it, does not stop the cleanup.
_REPEAT_SECONDS = 1.0


def watch_signals() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, unless they are ignored (nohup) or handled."""
    if threading.current_thread() is not threading.main_thread():
        return
    if os.name == "posix":  # elsewhere `os.kill` ends the process
        sys.unraisablehook = _on_unraisable
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _on_signal)


def restore_signals() -> None:
    """Restore the handlers of the system, in a forked process and at the end of this one."""
    for number in signal.valid_signals():
        if signal.getsignal(number) in (_on_signal, signal.default_int_handler):
            signal.signal(number, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=restore_signals)


def _on_signal(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    repeated = bool(_signals) and now - _signals[-1][1] < _REPEAT_SECONDS
    _signals.append((signal.Signals(number), now))
    if not repeated:
        raise KeyboardInterrupt


def _on_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Repeat an interrupt that a callback or destructor has dropped, such as those of Numba's compiler."""
    if not _signals:
        sys.__unraisablehook__(unraisable)
    elif isinstance(unraisable.exc_value, KeyboardInterrupt):
        _signals[-1] = (_signals[-1][0], -math.inf)
        _thread.start_new_thread(_repeat_signal, (_signals[-1][0],))  # `threading` may hold its lock here


def _repeat_signal(number: int) -> None:
    time.sleep(0.01)  # the callback returns
    os.kill(os.getpid(), number)
