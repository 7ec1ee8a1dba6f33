"""textsvm mail: a filter that learns, a family of commands around one store."""

from __future__ import annotations

import typer

from textsvm.cli.flags import Command
from textsvm.cli.mail_classify import classify
from textsvm.cli.mail_errors import MailGroup
from textsvm.cli.mail_learn import learn, relearn, unlearn
from textsvm.cli.mail_serve import serve
from textsvm.cli.mail_store import export, import_, report, retrain, status

mail = typer.Typer(
    cls=MailGroup,
    help="A mail filter that learns. Exit codes: 0 done or spam, 1 ham, 2 unsure, 3 failed.",
    no_args_is_help=True,
)
for command in (classify, learn, unlearn, relearn, status, export, import_, retrain, report, serve):
    mail.command(command.__name__.strip("_"), cls=Command)(command)
