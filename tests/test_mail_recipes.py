"""The recipes of docs/mail.md as they stand there, run by the programs that they are for."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from mail_servers import HAM, NEWSLETTER, PYTHONPATH, ROOT, SPAM, UNSURE, VERSION, free_port, toy, until
from test_mail_servers import Next, crlf, listening

from textsvm.apps.mail.client import ask

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "mail.md").read_text(encoding="utf-8")
DECIDED = b"X-Textsvm: Spam, score=0.998918, version=" + VERSION + b"\nX-Spam-Flag: YES\n"


def recipe(name):
    """A block of the page."""
    return re.search(rf'```\w+ title="{re.escape(name)}"\n(.*?)```', PAGE, re.DOTALL)[1]


def needs(program):
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    return pytest.mark.skipif(
        shutil.which(program, path=path) is None, reason=f"needs {program} (Debian package)"
    )


def test_the_steps_that_change_the_unit_may_be_repeated(tmp_path):
    unit, names = tmp_path / "textsvm-mail.service", ("postfix-lmtp", "postfix-milter", "postfix-smtp")
    unit.write_text(recipe("system/textsvm-mail.service"))
    for name in names:
        [line] = [line for line in recipe(name).splitlines() if line.startswith("sed ")]
        lines = []
        for _ in range(2):
            command = line.replace("/etc/systemd/system/textsvm-mail.service", str(unit))
            subprocess.run(command, shell=True, check=True)
            lines += [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
        assert lines[0] == lines[1]
        assert lines[0].startswith("ExecStart=/usr/local/bin/textsvm mail serve --store /var/lib/textsvm --")
        assert lines[0].count("--") in (2, 3)


SERVERS = str(ROOT / "tests/mail_servers.py")
#: Who mail is for where root runs the tests: Dovecot delivers nothing to root.
NOBODY = 65534


class Home:
    """A home folder with a server, and the client on the PATH."""

    def __init__(self, path):
        self.path = path
        self.bin = path / "bin"
        self.bin.mkdir()
        self.socket = path / ".local/share/textsvm/socket"
        # The file alone, and the system's Python: others than root may not see this one.
        client = shutil.copy(ROOT / "textsvm/apps/mail/client.py", self.bin)
        python = shutil.which("python3", path="/usr/bin") or sys.executable
        self.script("textsvm-mail-client", f'#!/bin/sh\nexec {python} -I -S {client} "$@"\n')

    def script(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run(self, *command, data=b"", **env):
        return subprocess.run(
            command,
            input=data,
            capture_output=True,
            cwd=self.path,
            timeout=60,
            env={"HOME": str(self.path), "PATH": f"{self.bin}:/usr/bin:/bin", "LOGNAME": "root", **env},
        )

    def knows(self, data):
        return ask(str(self.socket), "CHECK SPAMC/1.5\r\n", data)[0]["Decision"].split(" ")[0]

    def owner(self):
        """User and group that mail is for; all of the home is theirs."""
        if os.getuid():
            return os.getuid(), os.getgid()
        for each in (self.path, *self.path.rglob("*")):
            os.chown(each, NOBODY, NOBODY)
        return NOBODY, NOBODY


@pytest.fixture
def down():
    """A home without a server, where others than the user who runs the tests may look."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Home(Path(name))


@pytest.fixture
def home(down):
    with toy(down.socket):
        yield down


def in_folder(path):
    """Messages of a Maildir."""
    return [each.read_bytes() for name in ("new", "cur") for each in sorted((path / name).glob("*"))]


def test_first(home):
    (home.path / "message.eml").write_bytes(SPAM)
    found = home.run("sh", "-ec", recipe("first"))
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout == b"0\nS 0.998918\n" + SPAM.replace(b"\n\n", b"\n" + DECIDED + b"\n")


def procmail(home, data):
    """Deliver by procmail, which takes HOME and PATH from the system where its file is silent."""
    own = (
        f"HOME={home.path}\nPATH={home.bin}:/usr/bin:/bin\nMAILDIR={home.path}\nDEFAULT={home.path}/Inbox/\n"
    )
    (home.path / ".procmailrc").write_text(own + recipe("procmail") + recipe("procmail-categories"))
    found = home.run("procmail", str(home.path / ".procmailrc"), data=data)
    assert found.returncode == 0
    return found.stderr


@needs("systemd-analyze")
def test_systemd_units(down):
    """systemd finds nothing to complain of."""
    (down.path / "packaging").symlink_to(ROOT / "packaging")
    down.script("textsvm", "")
    down.script("systemctl", "")
    down.script("loginctl", "")
    found = down.run("sh", "-ec", recipe("user-units"))
    assert (found.returncode, found.stderr) == (0, b"")
    units = down.path / ".config/systemd/user"
    assert f"ExecStart={down.bin}/textsvm mail serve\n" in (units / "textsvm-mail.service").read_text()
    names = [str(units / name) for name in ("textsvm-mail.socket", "textsvm-mail.service")]
    found = down.run("systemd-analyze", "verify", "--user", *names, XDG_RUNTIME_DIR=str(down.path))
    lines = (found.stdout + found.stderr).decode().splitlines()
    assert [line for line in lines if "textsvm-mail" in line] == []


def test_units_have_memory_for_the_connections_of_postfix():
    """20 mails of 30 MB at once take 1.3 GB."""
    package = (ROOT / "packaging/debian/textsvm-mail.service").read_text(encoding="utf-8")
    for unit in (package, recipe("system/textsvm-mail.service")):
        assert int(re.search(r"^MemoryMax=(\d+)G$", unit, re.MULTILINE)[1]) * 2**30 > 1.3e9


@needs("systemd-socket-activate")
def test_systemd_starts_the_server_for_the_first_client(down):
    down.socket.parent.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    command = ["systemd-socket-activate", "-l", str(down.socket), "-E", "PYTHONPATH", sys.executable, SERVERS]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        until(down.socket.exists)
        found = down.run("textsvm-mail-client", "-t", data=SPAM)
        assert (found.returncode, found.stdout) == (0, b"S 0.998918\n")
    finally:
        process.terminate()
        assert process.wait(20) == 0


@needs("procmail")
def test_procmail(home):
    for data in (SPAM, HAM, UNSURE, NEWSLETTER):
        assert procmail(home, data) == b""
    assert [b"X-Textsvm-Newsletter: Yes" in each for each in in_folder(home.path / "Newsletters")] == [True]
    marked = SPAM.replace(b"\n\n", b"\n" + DECIDED + b"\n")
    assert in_folder(home.path / "Junk") == [
        marked + b"\n"
    ]  # procmail ends a filtered message with an empty line
    assert [b"X-Textsvm: Unsure" in each for each in in_folder(home.path / "Unsure")] == [True]
    assert [b"X-Textsvm: Ham" in each for each in in_folder(home.path / "Inbox")] == [True]


def maildrop(home, data):
    for name in ("Maildir", "Maildir/.Junk", "Maildir/.Newsletters"):
        for part in ("cur", "new", "tmp"):
            (home.path / name / part).mkdir(parents=True, exist_ok=True)
    script = home.path / "mailfilter"
    own = f'HOME="{home.path}"\nPATH="{home.bin}:/usr/bin:/bin"\n'  # as for procmail
    rules, keep = recipe("maildrop").rsplit("to ", 1)
    script.write_text(own + rules + recipe("maildrop-categories") + f"to {keep}")
    script.chmod(0o600)
    found = home.run("maildrop", str(script), data=data)
    assert found.returncode == 0, found.stderr.decode()
    return found.stderr


@pytest.mark.parametrize(
    ("deliver", "inbox"),
    [
        pytest.param(procmail, "Inbox", marks=needs("procmail")),
        pytest.param(maildrop, "Maildir", marks=needs("maildrop")),
    ],
)
def test_delivery_without_a_server(deliver, inbox, down):
    assert b"no server at" in deliver(down, SPAM)
    assert in_folder(down.path / inbox) == [SPAM]


@needs("maildrop")
def test_maildrop(home):
    for data in (SPAM, HAM, NEWSLETTER):
        maildrop(home, data)
    assert [b"X-Textsvm-Newsletter" in each for each in in_folder(home.path / "Maildir/.Newsletters")] == [
        True
    ]
    assert in_folder(home.path / "Maildir/.Junk") == [SPAM.replace(b"\n\n", b"\n" + DECIDED + b"\n")]
    assert [b"X-Textsvm: Ham" in each for each in in_folder(home.path / "Maildir")] == [True]


@needs("spamc")
def test_spamc(home):
    (home.path / "message.eml").write_bytes(SPAM)
    lines = recipe("spamc").splitlines()
    found = [home.run("sh", "-c", line) for line in lines]
    assert found[0].stdout == SPAM.replace(b"\n\n", b"\n" + DECIDED + b"\n")
    assert found[1].stdout == b"7.4/5.0\n"
    assert b"pills" in found[2].stdout
    assert [each.stdout for each in found[3:]] == [b"Message successfully un/learned\n"] * 2


@needs("mutt")
def test_mutt(home):
    inbox = home.path / "Inbox"
    inbox.write_bytes(b"From c@example.net Mon Jan  1 00:00:00 2026\n" + UNSURE + b"\n")
    start = f"set folder={home.path} spoolfile={inbox} copy=no quit=yes delete=yes mbox_type=mbox\n"
    start += "set sort=mailbox-order nomark_old nomove\n"
    (home.path / "muttrc").write_text(start + recipe("mutt") + "push S<sync-mailbox><quit>\n")
    child, terminal = pty.fork()
    if child == 0:
        env = {"HOME": str(home.path), "PATH": f"{home.bin}:/usr/bin:/bin", "TERM": "vt100"}
        os.execvpe("mutt", ["mutt", "-F", str(home.path / "muttrc"), "-f", str(inbox)], env)
    end, shown = time.monotonic() + 30, b""
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                break
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    assert home.knows(UNSURE) == "Spam", shown
    assert b"Who knows." in (home.path / "Junk").read_bytes()
    assert b"Who knows." not in (inbox.read_bytes() if inbox.exists() else b"")


# Postfix


def postfix_script(home, port):
    """Run the script, whose messages go to this port."""
    text = recipe("postfix").replace("10026", str(port)).replace("/usr/bin/python3", sys.executable)
    text = text.replace("/usr/local/bin", str(home.bin)).replace("/var/lib/textsvm", str(home.socket.parent))
    home.script("textsvm-filter", text)
    return home.run("textsvm-filter", "a@example.org", "b@example.org", data=SPAM)


def test_postfix_script(home):
    pytest.importorskip("aiosmtpd")
    kept = Next()
    with listening(False, kept) as next:
        found = postfix_script(home, next.sockets[0].getsockname()[1])
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
    marked = SPAM.replace(b"\n\n", b"\n" + DECIDED + b"\n")
    assert kept.kept == [("a@example.org", ["b@example.org"], crlf(marked))]
    found = postfix_script(home, free_port())  # nobody listens
    assert (found.returncode, found.stderr) == (75, b"")
    assert b"refused" in found.stdout


def test_postfix_script_without_a_server_has_postfix_keep_the_mail(down):
    pytest.importorskip("aiosmtpd")
    kept = Next()
    with listening(False, kept) as next:
        assert postfix_script(down, next.sockets[0].getsockname()[1]).returncode == 75
    assert kept.kept == []


# Dovecot


def with_filter(script):
    """sort.sieve with the line that asks the filter, where the page puts it."""
    line = re.search(r"Put `(filter [^`]+)` behind the line `require`", PAGE.replace("\n", " "))[1]
    require, rest = script.split("\n", 1)
    assert require.startswith("require ")
    return f"{require}\n{line}\n{rest}"


def dovecot_folder(home):
    """What is in /etc/dovecot/textsvm."""
    for name in ("textsvm-classify", "textsvm-learn"):
        text = recipe(name).replace("/usr/local/bin", str(home.bin)).replace("sg textsvm", "sh")
        home.script(name, text.replace("/var/lib/textsvm", str(home.socket.parent)))
    (home.bin / "sort.sieve").write_text(with_filter(recipe("sort.sieve") + recipe("sieve-categories")))
    learn = recipe("learn-spam.sieve")
    (home.bin / "learn-spam.sieve").write_text(learn)
    (home.bin / "learn-ham.sieve").write_text(learn.replace('"spam"', '"ham"'))


def sieve_test(home, data):
    dovecot_folder(home)
    (home.path / "message").write_bytes(data)
    uid, gid = home.owner()
    options = [f"mail_uid={uid}", f"mail_gid={gid}"]
    options += [f"plugin/sieve_filter_bin_dir={home.bin}", "plugin/sieve_plugins=sieve_extprograms"]
    options = [word for each in options for word in ("-o", each)]
    files = [str(home.bin / "sort.sieve"), str(home.path / "message")]
    found = home.run("sieve-test", "-x", "+vnd.dovecot.filter", *options, *files)
    assert found.returncode == 0, found.stderr.decode()
    return found.stdout


@needs("sieve-test")
def test_sieve(home):
    assert b"store message in folder: Junk" in sieve_test(home, SPAM)
    assert b"store message in folder: Newsletters" in sieve_test(home, NEWSLETTER)
    found = sieve_test(home, HAM)
    assert b"Junk" not in found
    assert b"Newsletters" not in found


@needs("sieve-test")
def test_sieve_without_a_server(down):
    found = sieve_test(down, SPAM)
    assert b"Junk" not in found
    assert b"Implicit keep" in found
