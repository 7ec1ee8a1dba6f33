"""MkDocs hooks: pages from outside docs/, notebooks, the page of options, formulas as MathML."""

from __future__ import annotations

import os
import re
import sys
from html import unescape
from pathlib import Path, PurePosixPath
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
import manual
import notebooks

ROOT = notebooks.ROOT

#: Files outside docs/ that are pages or pictures of the site, with the same paths.
OUTSIDE = (
    "reports/**/*.md", "reports/**/*.svg", "reports/**/*.png", "CHANGELOG.md", "CONTRIBUTING.md",
    "wheels/encoder_*/README.md",
)  # fmt: skip

#: Pages of the site without a file in the repository, by the file or folder that holds their content there.
GENERATED = {"docs/textsvm.1": "docs/commands.md", "examples": "docs/examples.md"}
LINK = re.compile(r"\]\((?!\w+:|#|/)([^)#\s]+)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add reports, the changelog, notebooks, examples and the page of options."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    files.append(File.generated(config, "reports/index.md", content=_reports()))
    files.append(File.generated(config, "commands.md", content=manual.page()))
    gallery = notebooks.gallery(ROOT / "examples")
    files.append(File.generated(config, "examples.md", content=gallery))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.remove(files.get_file_from_path(f"notebooks/{path.name}"))
        page = File.generated(config, f"notebooks/{path.stem}.md", content=notebooks.page(path))
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Any, **kwargs: Any) -> str:
    """Turn links between files of the repository into links between pages."""
    folder = PurePosixPath(page.file.src_uri).parent
    if page.file.src_uri.startswith("reports/"):
        page.meta["hide"] = ["toc"]  # room for wide tables
    inside = (ROOT / "docs" / page.file.src_uri).exists()

    def link(match: re.Match[str]) -> str:
        place = os.path.normpath(("docs" / folder if inside else folder) / match[1])
        place = GENERATED.get(place, place)
        return f"]({os.path.relpath(place.removeprefix('docs/'), folder).replace('.ipynb', '.md')}"

    return LINK.sub(link, markdown)


def on_page_content(html: str, page: Any, **kwargs: Any) -> str:
    """Convert formulas to MathML, which browsers show without a script; mark reports for the style sheet."""

    def formula(match: re.Match[str]) -> str:
        if match[1] == "span":
            return convert(unescape(match[2]))
        return f"<div class='formula'>{convert(unescape(match[2]), display='block')}</div>"

    html = FORMULA.sub(formula, html)
    return f"<div class='report'>{html}</div>" if page.file.src_uri.startswith("reports/") else html


def _reports() -> str:
    """A list of all reports by title."""
    lines = ["# All reports\n", "Each with its command, machine and commit.\n"]
    for path in sorted((ROOT / "reports").rglob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        lines.append(f"- [{title}]({path.relative_to(ROOT / 'reports').as_posix()})")
    return "\n".join(lines) + "\n"
