"""Whether files can lie on every file system under their names, and whether a wheel is what it should be.

python .ci/portable.py textsvm-1.0-py3-none-any.whl
"""

from __future__ import annotations

import re
import sys
import unicodedata
import zipfile
from collections.abc import Iterable
from email.parser import Parser

#: Windows has 260 symbols for a path, and what a package is installed into takes some.
LONGEST = 200
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f]')
COMMANDS = {"textsvm", "textsvm-mail-client"}


def troubles(paths: Iterable[str]) -> list[str]:
    """What Windows or a file system without cases cannot hold, a line for each."""
    found, seen = [], {}
    for path in paths:
        pieces = path.split("/")
        if len(path) > LONGEST:
            found.append(f"{path}: over {LONGEST} symbols")
        for end, piece in enumerate(pieces, 1):
            if _RESERVED.fullmatch(piece) or _FORBIDDEN.search(piece) or piece[-1:] in (".", " "):
                found.append(f"{path}: {piece!r} cannot be a name on Windows")
            begin = "/".join(pieces[:end])
            other = seen.setdefault(unicodedata.normalize("NFC", begin).casefold(), begin)
            if other != begin:
                found.append(f"{path}: where cases are one, {begin} is {other}")
    return found


def wheel_troubles(wheel: str) -> list[str]:
    """What is wrong with a wheel that is to be the same on every system."""
    with zipfile.ZipFile(wheel) as archive:
        infos = archive.infolist()
        texts = {
            each.filename.rpartition("/")[2]: archive.read(each).decode()
            for each in infos
            if ".dist-info/" in each.filename and "/licenses/" not in each.filename
        }
    names = [each.filename for each in infos]
    found = troubles(names)
    found += [f"{each.filename}: a link" for each in infos if each.external_attr >> 28 == 0xA]
    found += [f"{name}: compiled" for name in names if re.search(r"\.(so|pyd|dll|dylib|pyc|a|o)$", name)]
    about = Parser().parsestr(texts["WHEEL"])
    if about.get_all("Tag") != ["py3-none-any"] or about["Root-Is-Purelib"] != "true":
        found.append("not a pure wheel (py3-none-any)")
    commands = set(re.findall(r"^([\w-]+) *=", texts["entry_points.txt"], re.MULTILINE))
    if commands != COMMANDS:
        found.append(f"commands {sorted(commands)}, not {sorted(COMMANDS)}")
    beside = [name.partition(".data/")[2] for name in names if ".data/" in name]
    if beside != ["data/share/man/man1/textsvm.1"]:
        found.append(f"beside the package: {beside}")
    return found


if __name__ == "__main__":
    lines = wheel_troubles(sys.argv[1])
    sys.exit("\n".join(lines) or None)
