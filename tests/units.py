#!/usr/bin/env python3
"""`systemctl` of a machine without systemd, for the units and the commands of docs/mail.md.

    systemctl enable --now NAME.socket NAME.service
    systemctl daemon-reload
    systemctl restart|stop NAME.service
    systemctl disable --now NAME.socket NAME.service

A process for each socket keeps it while its service ends and starts again, as systemd does. The service is
started as its user, with the socket, and is ready when it says so; it is started again if it fails. Postfix
and Dovecot are started and stopped by their own commands. Hardening is not applied: systemd-analyze judges
it.
"""

import grp
import os
import pwd
import shlex
import signal
import socket
import subprocess
import sys
import time
from configparser import RawConfigParser
from pathlib import Path

UNITS, RUN = Path("/etc/systemd/system"), Path("/run/units")


def unit(name):
    parser = RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(UNITS / name)
    return parser


def listening(settings):
    user, group = settings["SocketUser"], settings["SocketGroup"]
    path, mode = settings["ListenStream"], int(settings["SocketMode"], 8)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1024)
    os.chown(path, pwd.getpwnam(user).pw_uid, grp.getgrnam(group).gr_gid)
    os.chmod(path, mode)
    return listener


def start(name, listener, notices):
    """The process of a service, when it is ready."""
    settings = unit(f"{name}.service")["Service"]
    account = pwd.getpwnam(settings["User"])

    def become():
        os.setsid()
        os.dup2(listener.fileno(), 3)
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
        os.umask(0o022)

    environment = {"PATH": os.environ["PATH"], "HOME": account.pw_dir, "LISTEN_FDS": "1"}
    environment |= {"NOTIFY_SOCKET": str(RUN / f"{name}.notify")}
    # The number of the process is known only after the fork: a shell sets it.
    command = ["sh", "-c", f"LISTEN_PID=$$ exec {settings['ExecStart']}"]
    log = open(RUN / f"{name}.log", "ab")  # noqa: SIM115 (of the process)
    process = subprocess.Popen(
        command, preexec_fn=become, pass_fds=[3], env=environment, cwd="/", stdin=subprocess.DEVNULL,
        stdout=log, stderr=log,
    )  # fmt: skip
    notices.settimeout(60)
    while process.poll() is None and b"READY=1" not in notices.recv(1 << 12):
        pass
    return process


def supervise(name):
    """Keep a socket and its service; SIGHUP starts the service again, SIGTERM ends it until SIGHUP."""
    listener = listening(unit(f"{name}.socket")["Socket"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        (RUN / f"{name}.notify").unlink(missing_ok=True)
        notices.bind(str(RUN / f"{name}.notify"))
        (RUN / f"{name}.notify").chmod(0o666)
        wanted = [signal.SIGHUP]
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, lambda number, _: wanted.append(number))
        process = None
        while True:
            if process is not None and process.poll() not in (None, 0):
                wanted.append(signal.SIGHUP)  # Restart=on-failure
            if wanted:
                number = wanted.pop(0)
                if process is not None and process.poll() is None:
                    process.terminate()
                    process.wait()
                process = start(name, listener, notices) if number == signal.SIGHUP else None
                (RUN / f"{name}.count").write_text(f"{float((RUN / f'{name}.count').read_text()) + 1}")
            time.sleep(0.02)


def control(name, number):
    """Start or stop a service, and wait until that is done."""
    RUN.mkdir(exist_ok=True)
    count, keeper = RUN / f"{name}.count", RUN / f"{name}.pid"
    before = float(count.read_text()) if count.exists() else 0.0
    count.write_text(str(before))
    if keeper.exists():
        os.kill(int(keeper.read_text()), number)
    else:
        if (pid := os.fork()) == 0:
            os.setsid()
            for handle in range(3):
                os.dup2(os.open(RUN / f"{name}.errors", os.O_RDWR | os.O_CREAT, 0o600), handle)
            supervise(name)
        keeper.write_text(str(pid))
    end = time.monotonic() + 90
    while float(count.read_text() or before) == before:
        assert time.monotonic() < end, f"{name} does not start"
        time.sleep(0.02)


def main(verb, *names):
    if verb == "daemon-reload":
        return
    assert verb in ("enable", "restart", "stop", "disable"), verb
    for name in names:
        if name == "postfix.service":
            subprocess.run(["postfix", "stop"], capture_output=True)
            subprocess.run(shlex.split("postfix start"), check=True)
        elif name == "dovecot.service":
            subprocess.run(["doveadm", "stop"], capture_output=True)
            subprocess.run(["dovecot"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        elif name.endswith(".service"):
            control(
                name.removesuffix(".service"),
                signal.SIGTERM if verb in ("stop", "disable") else signal.SIGHUP,
            )
        if verb == "disable" and name.endswith(".service"):
            os.kill(int((RUN / f"{name.removesuffix('.service')}.pid").read_text()), signal.SIGKILL)


if __name__ == "__main__":
    main(*(word for word in sys.argv[1:] if word != "--now"))
