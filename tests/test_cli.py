"""The command line as a user meets it: a real process, its exit code, stdout and stderr."""

import inspect
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version

import pytest
from command import ROOT, fails, report, run, run_fresh, works
from loading import load
from test_start_up import libraries
from typer.main import get_command
from typer.testing import CliRunner

import textsvm
from textsvm.cli import COMMANDS, app_of
from textsvm.kernels import KERNELS
from textsvm.kernels.options import SPELLED_ONLY
from textsvm.readers import sample

#: So that a checkout is found from any folder.
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A spam filter trained on the sample mails."""
    path = tmp_path_factory.mktemp("model") / "spam.textsvm"
    result = works("train", sample("mail"), "-o", path, "--holdout", "0.25", "--seed", "1", "--json")
    return path, json.loads(result.stdout)


def test_help_is_quick_and_names_the_commands():
    run_fresh("--help")  # whatever had to be written to __pycache__ is there now
    before = os.times()
    result = run_fresh("--help")
    after = os.times()  # of the processor: a test beside this one takes none of it
    assert after.children_user + after.children_system < before.children_user + before.children_system + 1.0
    assert result.returncode == 0
    for command in ("demo", "corpus", "train", "evaluate", "predict", "tune", "cv", "devices", "mail"):
        assert command in result.stdout.decode()


def test_help_shows_the_first_sentence_of_each_command_and_imports_no_command():
    commands = get_command(app_of()).commands
    sentences = {name: " ".join(command.help.split("\n\n")[0].split()) for name, command in commands.items()}
    assert sentences == COMMANDS
    code = "import sys, textsvm.cli as cli\nsys.argv = ['textsvm', '--help']\ntry: cli.main()\n"
    code += "finally: print(*sys.modules, file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == CliRunner().invoke(app_of(), ["--help"], prog_name="textsvm").stdout
    imported = set(result.stderr.split())
    assert not imported & {f"textsvm.cli.{name}" for name in COMMANDS}
    assert not any(name.startswith("textsvm.apps") for name in imported)


def test_no_option_is_called_like_its_metavar():
    """Typer 0.27 calls --name with the metavar NAME --NAME, unless the declaration names it."""
    for command in app_of().registered_commands:
        for name, parameter in inspect.signature(command.callback).parameters.items():
            declared = getattr(parameter.annotation, "__metadata__", (None,))[0]
            metavar = getattr(declared, "metavar", None) or ""
            named = getattr(declared, "default", None) == f"--{name}"  # Typer reads the first name as this
            assert named or metavar.lower() != name.replace("_", "-"), name


@pytest.mark.slow
@pytest.mark.parametrize("command", [[], ["train"], ["tune"], ["mail"], ["mail", "classify"]], ids=str)
def test_help_imports_nothing_that_takes_long(command):
    shown, loaded = libraries(None, *command, "--help")
    assert "Usage" in shown
    assert {"textsvm", "typer"} <= loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "numba", "cupy", "pandas", "matplotlib", "safetensors"}


def test_version():
    lines = run_fresh("--version").stdout.decode().splitlines()
    assert lines[0] == f"textsvm {textsvm.__version__}"
    assert lines[1].startswith("device: ")
    assert lines[2].startswith(f"Python {platform.python_version()}")
    for library in ("numpy", "numba", "scikit-learn"):
        assert version(library) in lines[3]


def completed(*words):
    """What completion offers for the last of these words."""
    done = run_fresh(
        env={
            "_TEXTSVM_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("textsvm", *words)),
            "COMP_CWORD": str(len(words)),
        }
    )
    assert done.returncode == 0, done.stderr.decode()
    return set(done.stdout.decode().split())


@pytest.mark.slow
def test_completion():
    assert completed("tr") == {"train"}
    assert {"train", "tune", "cv", "mail"} <= completed("")
    assert completed("train", "--ker") == {"--kernel"}
    assert "learn" in completed("mail", "le")
    for command in ("train", "tune", "cv", "compare", "map"):
        assert completed(command, "--kernel", "sp") == {"spectrum"}
        assert "auto" in completed(command, "--kernel", "")
    assert completed("export", "--to", "") == {"c", "js", "page", "onnx", "bin"}
    assert completed("mail", "learn", "--as", "s") == {"spam"}


def test_a_corpus_from_standard_input():
    table = (ROOT / "corpora/samples/messages.csv").read_bytes()
    shown = run("corpus", "-", stdin=table)
    assert (shown.returncode, b"standard input" in shown.stdout) == (0, True)
    named = run("corpus", ROOT / "corpora/samples/messages.csv", "--json").stdout
    facts, expected = json.loads(run("corpus", "-", "--json", stdin=table).stdout), json.loads(named)
    assert facts["labels"] == expected["labels"]
    assert facts["n"] == expected["n"]
    assert run("cv", "-", "--folds", "2", "--kernel", "spectrum:2", stdin=table).returncode == 0
    assert "standard input" in fails("corpus", "-", stdin=b"")


def test_completion_installs(tmp_path):
    shown = run_fresh("--show-completion", "bash").stdout.decode()
    assert "_TEXTSVM_COMPLETE=complete_bash" in shown
    done = run_fresh("--install-completion", "bash", env={"HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr.decode()
    [script] = [path for path in tmp_path.rglob("*.sh") if path.is_file()]
    assert shown.strip() in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()
    assert run_fresh("--show-completion", "nosuchshell").returncode == 1


@pytest.mark.slow
def test_demo():
    result = run("demo")
    said, shown = result.stderr.decode(), result.stdout.decode()
    assert result.returncode == 0, said
    assert "note:" not in said
    assert "warning:" not in said
    right, of, share, always = re.search(
        r"(\d+) of\s+(\d+)\s+right\s+\(([\d.]+) %\); always 'ham': ([\d.]+) %", shown
    ).groups()
    assert float(share) == pytest.approx(100 * int(right) / int(of), abs=0.05)
    assert float(share) > 85 > float(always) > 50
    assert "you were chosen for a pr1ze" in shown.lower()
    named = re.search(r"is spam \(decision value \+[\d.]+\), most of all for (.*)", shown)[1]
    words = [each.rsplit(" ", 1) for each in named.split(", ")]
    assert len(words) == 5
    values = [float(value) for _, value in words]
    assert values == sorted(values, reverse=True)
    assert values[0] > 0


def test_train_reports_what_a_script_needs(model):
    path, report = model
    assert path.exists()
    assert report.keys() == {
        "warnings",
        "reading",
        "model", "estimator", "device", "kernel", "kernel_spelled", "kernel_matrix", "n_train", "classes",
        "n_support", "chosen", "C", "loss",
        "machines", "iterations", "converged", "status", "objective", "duality_gap", "seconds", "holdout",
        "estimate", "bytes", "texts", "prediction",
    }  # fmt: skip
    assert report["texts"]
    assert report["bytes"] == path.stat().st_size
    assert report["seconds"].keys() == {
        "read", "check", "encode", "choose", "gram", "solve", "assemble", "estimate", "save", "total",
    }  # fmt: skip
    assert report["converged"]
    assert 0 < report["n_support"] <= report["n_train"]
    assert 0.85 < report["holdout"]["accuracy"] <= 1


def test_predict_a_raw_mail_from_stdin(model):
    mail = (
        b"From: a@example.org\r\nTo: b@example.org\r\nSubject: =?utf-8?b?RnJlZSBwcml6ZQ==?=\r\n"
        b"MIME-Version: 1.0\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
        b"<p>Claim your <b>money</b> now!</p>\r\n"
    )
    line = json.loads(run("predict", model[0], "-", stdin=mail).stdout)
    assert line.keys() == {"id", "label", "decision"}
    assert line["label"] in ("ham", "spam")


def test_a_closed_pipe_is_no_error(model, write):
    lines = write("many.jsonl", "".join(f'{{"id": "{i}", "text": "free money {i}"}}\n' for i in range(5000)))
    textsvm = f'"{sys.executable}" -m textsvm'
    command = f'{{ {textsvm} predict "{model[0]}" "{lines}"; echo "code $?" >&2; }} | head -1'
    result = subprocess.run(["sh", "-c", command], capture_output=True, timeout=120)
    assert json.loads(result.stdout)["id"] == "0"
    assert result.stderr.splitlines()[-1] == b"code 141"  # 128 + SIGPIPE
    assert b"Traceback" not in result.stderr
    assert b"Broken" not in result.stderr


def test_a_closed_pipe_ends_a_table(tmp_path):
    """Rich would exit with code 1."""
    code = (
        "import sys\n"
        "from textsvm.cli import console\n"
        "def app(**settings): console.Console().line('text ' * 100_000)\n"
        "print('code', console.main(app), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stream:
        result = subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, timeout=60)
    assert result.stderr == b"code 141\n"


def test_an_interrupt_during_the_imports_is_no_traceback():
    code = (
        "import builtins\n"
        "ordinary = builtins.__import__\n"
        "def interrupted(name, *rest):\n"
        "    if name == 'textsvm.cli': raise KeyboardInterrupt\n"
        "    return ordinary(name, *rest)\n"
        "builtins.__import__ = interrupted\n"
        "import textsvm.__main__"
    )
    result = result_of(code)
    assert (result.returncode, result.stderr) == (130, "textsvm: interrupted; no output was written\n")


#: Places whose exceptions Python prints and drops, and one where a library has changed the error.
DROPPED = {
    "destructor": "class Place:\n def __del__(self): kill()\nplace = Place(); del place; time.sleep(60)",
    "weak reference": (
        "class Place: pass\nplace = Place(); ref = weakref.ref(place, lambda _: kill())\n"
        "del place; time.sleep(60)"
    ),
    "changed error": "try: kill()\nexcept KeyboardInterrupt: raise InputError('no such package') from None",
    "passing error": "try: kill()\nexcept KeyboardInterrupt: raise RuntimeError('half a state') from None",
}


def result_of(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)


@posix
@pytest.mark.parametrize("place", DROPPED)
def test_an_interrupt_that_a_library_drops_is_repeated(place):
    code = (
        "import os, signal, sys, time, weakref\n"
        "from textsvm.cli import console\n"
        "from textsvm.errors import InputError\n"
        "def kill(): os.kill(os.getpid(), signal.SIGTERM)\n"
        f"def app(**settings): exec({DROPPED[place]!r}, globals())\n"
        "console.watch_signals()\n"
        "sys.exit(console.main(app))"
    )
    result = result_of(code)
    assert result.stderr == "textsvm: ended by SIGTERM; no output was written\n"
    assert result.returncode == 128 + signal.SIGTERM


@posix
def test_other_errors_of_destructors_are_printed():
    code = (
        "from textsvm.cli import console\n"
        "console.watch_signals()\n"
        "class Place:\n def __del__(self): raise ValueError('ours')\n"
        "Place()"
    )
    assert "ValueError: ours" in result_of(code).stderr


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_after_the_end_of_a_command_is_no_traceback(number):
    code = (
        "import atexit, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from textsvm.cli import main\n"
        f"atexit.register(lambda: os.kill(os.getpid(), {int(number)}))\n"
        "sys.argv[1:] = ['--version']\n"
        "main()"
    )
    result = result_of(code)
    assert result.stderr == ""
    assert result.returncode == -number


@pytest.mark.slow
def test_messages_that_nobody_reads_do_not_stop_the_work(tmp_path):
    command = f'"{sys.executable}" -m textsvm train "{sample("mail")}" -o m --max-length 50 2>&1 | head -1'
    result = subprocess.run(["sh", "-c", command], capture_output=True, timeout=120, cwd=tmp_path, env=ENV)
    assert result.stdout.count(b"\n") == 1
    assert run("predict", tmp_path / "m", "-", stdin=b"free money").returncode == 0


def test_corpus_prints_each_note_once(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("# a comment\ntext,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(20)))
    shown, note = run("corpus", path), b"lines above the header that are left out: 1"
    assert (shown.stdout.count(note), shown.stderr.count(note)) == (1, 0)
    assert run("corpus", path, "--json").stderr.count(note) == 1


def test_both_splits_of_reuters():
    for format, train in (("reuters", 373), ("reuters-lewis", 406)):
        found = report("corpus", sample("newswire"), "--format", format)
        assert (found["format"], found["parts"]["train"]) == ("reuters", train)


def test_a_parameter_of_kernels_is_an_option_of_tune_alone():
    commands = get_command(app_of()).commands
    parameters = {option.name for name in KERNELS for option in KERNELS.options(name)} - SPELLED_ONLY
    for name, command in commands.items():
        options = {parameter.name for parameter in command.params}
        assert parameters & options == (parameters if name == "tune" else set())
    assert not SPELLED_ONLY - {"encoder"} & {parameter.name for parameter in commands["tune"].params}


def test_output_in_a_pipe_is_plain(model):
    result = run("evaluate", model[0], sample("mail"))
    assert b"\x1b[" not in result.stdout + result.stderr
    assert run("evaluate", model[0], sample("mail"), "--quiet", "--json").stderr == b""


def test_no_command_shows_the_help():
    result = run()
    assert result.returncode == 2
    assert b"Usage" in result.stdout + result.stderr
    assert b"textsvm: (see" not in result.stderr


def test_no_space_left_keeps_the_old_model(model, tmp_path, write):
    old = write("m.textsvm", b"precious")
    options = ["--force", "--max-length", "50"]
    code = (
        "import os\n"
        "def full(handle): raise OSError(28, 'No space left on device')\n"
        "os.fsync = full\n"
        f"import sys; sys.argv[1:] = {['train', str(sample('mail')), '-o', str(old), *options]}\n"
        "from textsvm.cli import main; main()"
    )
    result = result_of(code)
    assert result.returncode == 1
    assert "No space left" in result.stderr
    assert "Traceback" not in result.stderr
    assert old.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["m.textsvm"]


@pytest.mark.slow
@posix
@pytest.mark.parametrize(("n", "repeats"), [(1500, 60), (4, 5000)], ids=["many", "very long"])
def test_ctrl_c_leaves_nothing_behind(n, repeats, tmp_path, write):
    lines = tmp_path / "long.jsonl"
    text = "the quick brown fox jumps over the lazy dog " * repeats
    lines.write_text("".join(json.dumps({"text": f"{i} {text}", "label": i % 2}) + "\n" for i in range(n)))
    old = write("m.textsvm", b"precious")
    process = subprocess.Popen(
        [sys.executable, "-m", "textsvm", "train", str(lines), "--kernel", "gap", "-o", str(old), "--force"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A test run in the background of a shell ignores Ctrl-C, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while b"documents of 2 classes" not in process.stderr.readline():
            assert process.poll() is None, process.communicate()
        time.sleep(2)  # into the kernel matrix
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == b""
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert old.read_bytes() == b"precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["long.jsonl", "m.textsvm"]


def test_devices():
    found = json.loads(run("devices", "--json").stdout)["devices"]
    assert found[0]["device"] == "cpu"
    assert found[0]["usable"]
    assert all(each["usable"] or each["trouble"] for each in found)
    assert "cpu" in run("devices").stdout.decode()


def test_a_million_symbols(tmp_path, write):
    lines = [{"text": f"{word} {i}", "label": word} for i in range(20) for word in ("banana", "monday")]
    lines.append({"text": "banana " * 143_000, "label": "banana"})
    path = write("long.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    for kernel in ("spectrum", "edit"):
        result = works("train", path, "--kernel", kernel, "-o", tmp_path / "m", "--json")
        assert json.loads(result.stdout)["n_train"] == 41
    assert "1,001,000 symbols" in result.stderr.decode()


def in_ascii(*arguments):
    """Run textsvm where output can only be ASCII."""
    return run_fresh(*arguments, env={"PYTHONIOENCODING": "ascii"})


@pytest.mark.parametrize("run", [run, in_ascii], ids=["utf-8", "ascii"])
def test_names_that_are_not_ascii_or_no_text_at_all(model, tmp_path, write, run):
    named = write("Ελλάδα.txt", "free money")
    damaged = os.fsdecode(os.fsencode(tmp_path / "caf") + b"\xe9.txt")
    assert "is not there" in fails("predict", model[0], damaged, run=run)
    with open(damaged, "wb") as file:
        file.write(b"free money")
    first, second = map(json.loads, works("predict", model[0], named, damaged).stdout.splitlines())
    assert first["id"] == str(named)
    assert second["label"] in ("ham", "spam")


def test_a_model_whose_information_lies(model, tmp_path):
    import textsvm

    lying = tmp_path / "m.textsvm"
    textsvm.save(load(model[0]), lying, {"positive": ["spam"], "negative": {"a": 1}, "reading": [1, 2]})
    assert run("predict", lying, "-", stdin=b"free money").returncode == 0
    assert run("evaluate", lying, sample("mail"), "--json").returncode == 0
