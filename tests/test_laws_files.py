"""What a function opens, starts or changes is closed, ended and restored, also after an error."""

import asyncio
import csv
import gc
import os
import signal
import threading
from contextlib import asynccontextmanager, suppress

import pytest
from command import run
from test_laws_options import READ, world  # noqa: F401

from textsvm.apps.mail.filter import Filter
from textsvm.readers.read import read_corpus

pytestmark = pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="files of a process as Linux lists them"
)


def open_files():
    """Files and pipes that this process has open."""
    names = []
    for name in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # of the list itself
            continue
    return sorted(name for name in names if not name.startswith("/proc/") and "anon_inode" not in name)


@pytest.fixture
def resources():
    """Compare files, threads and the limit of module csv before and after, without waiting for `gc`."""

    def state():
        threads = sorted(thread.name for thread in threading.enumerate() if not thread.daemon)
        return open_files(), threads, csv.field_size_limit()

    gc.collect()
    before = state()
    gc.disable()
    yield
    after = state()
    gc.enable()
    assert after == before


CORPORA = ["t.csv", "damaged.csv", "accents.csv", "t.xlsx", "plain.txt", "mail", "prodigy.jsonl", "many.csv"]


@pytest.mark.parametrize("name", CORPORA)
def test_readers_close_their_files(name, world, resources):  # noqa: F811
    read_corpus(world / name)
    with pytest.raises((ValueError, OSError)):
        read_corpus(world / name, label="no such column", part="nowhere")


@pytest.mark.parametrize(
    "arguments",
    [
        "train t.csv -o out.textsvm " + READ,
        "train t.csv -o nowhere/out.textsvm " + READ,
        "predict m.textsvm t.csv --text text -o out.csv",
        "predict m.textsvm nowhere.csv",
        "predict c.textsvm t.csv --text nothing",
        "evaluate m.textsvm t.csv --report out.html --text text --label label2",
        "cv t.csv --folds 99 " + READ,
        "update m.textsvm new.csv -o out.textsvm",
        "label damaged.csv --export out.csv --output out.jsonl " + READ,
    ],
)
def test_commands_close_their_files(arguments, world, resources):  # noqa: F811
    for path in world.glob("out*"):
        path.unlink()
    run(*arguments.split(), cwd=world)


def test_a_store_of_mails_is_closed(tmp_path, resources):
    with Filter(tmp_path / "store", create=True) as opened:
        opened.learn(b"From: a@b\n\ntext", "ham")
        opened.learn(b"From: a@b\n\nother", "newsletter")
    with pytest.raises(ZeroDivisionError), Filter(tmp_path / "store"):
        1 / 0  # noqa: B018


def test_a_server_gives_signals_back():
    """Also if it fails while it starts."""
    http = pytest.importorskip("textsvm.runtime.http")
    pytest.importorskip("httptools")
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    @asynccontextmanager
    async def context(number):
        if number is None:
            raise ZeroDivisionError
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), number)
        yield

    async def app(request):
        return http.HttpAnswer(200, b"")

    before = [signal.getsignal(number) for number in numbers]
    for number in (signal.SIGTERM, signal.SIGINT, None):
        with suppress(ZeroDivisionError):
            http.run(app, http.listen("127.0.0.1", 0), context(number))
        assert [signal.getsignal(number) for number in numbers] == before
