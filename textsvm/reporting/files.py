"""A report -> a file of the form that its name asks for."""

from __future__ import annotations

import json
import os
from pathlib import Path

from textsvm.errors import InputError, json_escaped
from textsvm.reporting import html, markdown
from textsvm.reporting.report import Report
from textsvm.runtime.files import replacing

FORMS = {".html": html.render, ".htm": html.render, ".md": markdown.render}


def check_form(path: str | os.PathLike[str]) -> None:
    """Raise InputError if the name of a report does not tell its form."""
    if Path(path).suffix.lower() not in (*FORMS, ".json"):
        raise InputError(f"a report is written as .html, .md or .json, and {path} ends in none of them")


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report as HTML, Markdown or JSON.

    Parameters
    ----------
    report : Report
    path : path
        Its ending tells the form; replaced only once the new file is complete.

    Raises
    ------
    InputError
        If the ending is none of .html, .md and .json, or the file cannot be written.
    """
    check_form(path)
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        text = json_escaped(json.dumps(report.as_dict(), ensure_ascii=False, indent=1)) + "\n"
    else:
        text = FORMS[suffix](report)
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")
