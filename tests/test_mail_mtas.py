"""The recipes for Postfix and Exim, run by those servers: as root, where they are installed (Debian packages
postfix; exim4-daemon-heavy). Nothing of the system's own configuration or queue is used."""

import os
import shutil
import smtplib
import subprocess
import tempfile
from pathlib import Path

import pytest
from mail_servers import HAM, SPAM, VERSION, free_port, toy, until
from test_mail_recipes import recipe
from test_mail_servers import Next, connection_refused, crlf, listening

pytestmark = pytest.mark.slow

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
POSTFIX, EXIM = shutil.which("postfix", path=PATH), shutil.which("exim4", path=PATH)
FORGED = b"X-Textsvm: Ham, forged\nSubject: forged\n\nCheap pills\n"
as_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root")


def scans():
    """Whether there is an Exim that asks spamd."""
    if EXIM is None:
        return False
    return b"Content_Scanning" in subprocess.run([EXIM, "-bV"], capture_output=True).stdout


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@as_root
@pytest.mark.skipif(not scans(), reason="needs exim4-daemon-heavy (Debian package)")
def test_exim(folder):
    for name in ("spool", "log"):
        (folder / name).mkdir()
        shutil.chown(folder / name, "Debian-exim")
    options, lists = recipe("exim").replace("/run/textsvm/socket", str(folder / "socket")).split("\n\n", 1)
    (folder / "conf").write_text(
        f"exim_path={EXIM}\nspool_directory={folder}/spool\nlog_file_path={folder}/log/%s\nkeep_environment=\n"
        f"exim_user=Debian-exim\nprimary_hostname=mx.example.org\nacl_smtp_rcpt=accept\n"
        f"acl_smtp_data=acl_check_data\n{options}\nbegin acl\n{lists}\n"
        f"begin routers\nto_file:\n  driver=accept\n"
        f"  transport=file\nbegin transports\nfile:\n  driver=appendfile\n  file={folder}/spool/out\n"
    )
    with toy(folder / "socket"):
        (folder / "socket").chmod(0o666)
        for data in (SPAM, HAM):
            start = b"HELO x\r\nMAIL FROM:<a@example.net>\r\nRCPT TO:<b@example.org>\r\nDATA\r\n"
            command = [EXIM, "-C", str(folder / "conf"), "-odq", "-bs"]
            said = subprocess.run(command, input=start + crlf(data) + b".\r\nQUIT\r\n", capture_output=True)
            assert b"250 OK id=" in said.stdout, said
    headers = [each.read_text() for each in sorted((folder / "spool/input").rglob("*-H"))]
    assert [next(line for line in each.splitlines() if "X-Spam-Score" in line)[5:] for each in headers] == [
        "X-Spam-Score: 7.4",
        "X-Spam-Score: -5.0",
    ]


#: Of master.cf: what every Postfix runs.
SERVICES = """\
pickup    unix        n  -  n  60     1  pickup
cleanup   unix        n  -  n  -      0  cleanup
qmgr      unix        n  -  n  300    1  qmgr
tlsmgr    unix        -  -  n  1000?  1  tlsmgr
rewrite   unix        -  -  n  -      -  trivial-rewrite
bounce    unix        -  -  n  -      0  bounce
defer     unix        -  -  n  -      0  bounce
trace     unix        -  -  n  -      0  bounce
verify    unix        -  -  n  -      1  verify
flush     unix        n  -  n  1000?  0  flush
proxymap  unix        -  -  n  -      -  proxymap
smtp      unix        -  -  n  -      -  smtp
relay     unix        -  -  n  -      -  smtp
error     unix        -  -  n  -      -  error
retry     unix        -  -  n  -      -  error
anvil     unix        -  -  n  -      1  anvil
scache    unix        -  -  n  -      1  scache
postlog   unix-dgram  n  -  n  -      1  postlogd
"""


class Postfix:
    """A Postfix of its own configuration, whose mail goes to a server that keeps it."""

    def __init__(self, folder, next):
        self.folder, self.config, self.port = folder, folder / "conf", free_port()
        for name in ("conf", "queue", "data"):
            (folder / name).mkdir()
        shutil.chown(folder / "data", "postfix")
        daemons = self._default("daemon_directory")
        (self.config / "main.cf").write_text(
            f"compatibility_level=3.6\nqueue_directory={folder}/queue\ndata_directory={folder}/data\n"
            f"command_directory={Path(POSTFIX).parent}\ndaemon_directory={daemons}\n"
            "myhostname=mx.example.org\nmydestination=\ninet_interfaces=127.0.0.1\ninet_protocols=ipv4\n"
            f"mynetworks=127.0.0.0/8\nrelay_domains=example.org\nrelay_transport=smtp:[127.0.0.1]:{next}\n"
            f"maillog_file={folder}/log\nmaillog_file_prefixes={folder}\nmaximal_backoff_time=1\n"
        )
        self.services = [f"127.0.0.1:{self.port} inet n - n - - smtpd"]

    def _default(self, name):
        command = [str(Path(POSTFIX).with_name("postconf")), "-d", "-h", name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def start(self, settings="", *services):
        """With these settings and services beside those that every Postfix has."""
        with (self.config / "main.cf").open("a") as stream:
            stream.write(settings)
        (self.config / "master.cf").write_text("\n".join([*self.services, *services, SERVICES]))
        said = self.run("start")
        assert said.returncode == 0, said.stderr.decode() + self.log()
        try:
            until(self._listens, 5)
        except AssertionError:
            raise AssertionError(self.log()) from None

    def log(self):
        return (self.folder / "log").read_text() if (self.folder / "log").exists() else ""

    def _listens(self):
        try:
            smtplib.SMTP("127.0.0.1", self.port, timeout=5).close()
        except OSError:
            return False
        return True

    def run(self, verb):
        return subprocess.run([POSTFIX, "-c", str(self.config), verb], capture_output=True)

    def send(self, *messages):
        with smtplib.SMTP("127.0.0.1", self.port, timeout=20) as line:
            for data in messages:
                line.sendmail("a@example.net", ["b@example.org"], crlf(data))


@pytest.fixture
def postfix(folder):
    pytest.importorskip("aiosmtpd")
    kept = Next()
    with listening(False, kept) as next:
        found = Postfix(folder, next.sockets[0].getsockname()[1])
        try:
            yield found, kept.kept
        finally:
            found.run("stop")


def of(kept, subject):
    """The header of the message of a subject, and its lines of ours."""
    header = next(data for _, _, data in kept if b"Subject: " + subject in data).partition(b"\r\n\r\n")[0]
    return [line for line in header.split(b"\r\n") if line.startswith((b"X-Textsvm", b"X-Spam"))]


needs_postfix = pytest.mark.skipif(POSTFIX is None, reason="needs postfix (Debian package)")
SAID = [b"X-Textsvm: Spam, score=0.998918, version=" + VERSION, b"X-Spam-Flag: YES"]


@as_root
@needs_postfix
def test_postfix_and_the_milter(folder, postfix):
    pytest.importorskip("kilter.service")
    server, kept = postfix
    path = folder / "queue/textsvm/milter"
    path.parent.mkdir()
    with toy(folder / "socket", f"milter={path}"):
        until(lambda: not connection_refused(str(path)))
        shutil.chown(path, group="postfix")
        server.start(recipe("main.cf"))
        server.send(SPAM, HAM, FORGED)
        until(lambda: len(kept) == 3)
        assert of(kept, b"offer") == of(kept, b"forged") == SAID
        assert of(kept, b"minutes") == [b"X-Textsvm: Ham, score=0.010000, version=" + VERSION]
        kept.clear()
    server.send(SPAM)  # the milter is gone
    until(lambda: len(kept) == 1)
    assert of(kept, b"offer") == []


@as_root
@needs_postfix
def test_postfix_and_the_content_filter(folder, postfix):
    server, kept = postfix
    port, back = free_port(), free_port()
    with toy(folder / "socket", f"smtp={port},127.0.0.1:{back}"):
        again = f"127.0.0.1:{back} inet n - n - - smtpd\n  -o content_filter="
        server.start(f"content_filter = smtp:[127.0.0.1]:{port}\n", again)
        server.send(SPAM, FORGED)
        until(lambda: len(kept) == 2)
        assert of(kept, b"offer") == of(kept, b"forged") == SAID
