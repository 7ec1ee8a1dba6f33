"""A command, killed at its first call that writes, then at its second, until it comes to its end.

    LD_PRELOAD=kills.so python killed.py FOLDER OUTPUT STEP COMMAND...

Prints a JSON list, one item a kill: "old", "new" or what else is there, and how many files lie beside it.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path


def main(folder, name, step, *command):
    from textsvm import SVC, cli, tune  # noqa: F401 (imported before the first fork)

    SVC("spectrum").fit(["warm", "kernels"], [0, 1]).predict(["up"])
    shim = ctypes.CDLL(None)
    os.chdir(folder)
    before = sorted(os.listdir("."))
    child(shim, -1, command)
    new, old, found = Path(name).read_bytes(), None, []
    os.unlink(name)
    for point in range(1, 10_000, int(step)):
        if old is not None:
            Path(name).write_bytes(old)
        code = child(shim, point, command)
        now = Path(name).read_bytes() if Path(name).exists() else None
        state = "old" if now == old else "new" if whole(now, new) else f"{len(now or b'')} bytes"
        found.append([state, len(set(os.listdir(".")) - {*before, name})])
        old = b"" if old is None else None  # there is none, and an empty one, in turns
        if code == 0:
            break
        if old is None and Path(name).exists():
            os.unlink(name)
    print(json.dumps([code, found]))


def whole(now, new):
    """The same bytes, or of a report, which holds times, the same beginning and end."""
    return now == new or (now is not None and new[:9] == now[:9] == b"<!doctype" and new[-9:] == now[-9:])


def child(shim, point, command):
    """The exit code of a command, or less the signal that ended it."""
    process = os.fork()
    if process == 0:
        from textsvm import cli

        signal.alarm(60)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the end)
        sys.argv = ["textsvm", *command]
        shim.kill_at(point)
        try:
            cli.main()
        except SystemExit as end:
            os._exit(end.code or 0)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
