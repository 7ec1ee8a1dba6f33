"""python reports/demo_picture.py: what `textsvm demo` prints, as the picture in the README."""

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "110", "COLORTERM": "truecolor"}
command = [sys.executable, "-m", "textsvm", "demo", "--quiet"]
output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
with open(os.devnull, "w", encoding="utf-8", newline="\n") as nowhere:
    console = Console(record=True, width=110, file=nowhere, force_terminal=True)
    console.print(Text.from_ansi("$ textsvm demo\n\n" + output))
    picture = console.export_svg(title="textsvm")
# Rich names a web font; any monospace font does, and the picture then needs no network.
picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
Path(__file__).with_name("demo.svg").write_text(picture, encoding="utf-8", newline="\n")
