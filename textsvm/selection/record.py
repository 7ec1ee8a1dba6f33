"""What a search knows so far, a line of JSON a setting: one that was stopped goes on with equal results."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib

from textsvm.errors import InputError
from textsvm.runtime.files import replacing
from textsvm.runtime.plain_json import to_json

if TYPE_CHECKING:
    from textsvm.selection.grid import Shared
    from textsvm.selection.search import Search

#: What a setting is besides; where its work is done changes no result.
_PLACES = ("device", "memory", "store", "tier")
_HEAD = "textsvm tune"


class Record:
    """A file of settings tried.

    Parameters
    ----------
    path : path
        Gone on from if it is there, else made with the first settings that are known.
    search : Search
        Gets what the file knows.
    data : object
        What the search is on: documents, and whatever the figures depend on besides.

    Raises
    ------
    InputError
        If the file is of another search, or none; if it cannot be written.
    """

    def __init__(self, path: Path, search: Search, data: Any) -> None:
        self.path, self.search, self._begun = path, search, False
        self.keys = [_key(setting.model) for setting in search.settings]
        folds = [(train.tolist(), test.tolist()) for train, test in search.all_folds]
        values = [search.target.values.tolist(), search.weight, folds, search.metric]
        self._head = json.dumps({_HEAD: 1, "of": joblib.hash([data, *values])}) + "\n"
        known = self._read()
        for k, key in enumerate(self.keys):
            if key is not None and key in known:
                search.tried[k], search.seconds[k] = known[key]["folds"], known[key]["seconds"]

    def _read(self) -> dict[str, dict[str, Any]]:
        """Lines by their settings; one that is damaged, such as a last one that is cut off, is none."""
        try:
            first, _, rest = self.path.read_text("utf-8").partition("\n")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path} cannot be read as the table of a search: {error}") from error
        if first and first + "\n" != self._head:
            raise InputError(
                f"{self.path} is the table of another search (other documents, labels, folds or metric), or "
                "none; name another file"
            )
        found = {}
        for line in rest.splitlines():
            try:
                row = json.loads(line)
                if self._fits(row["folds"], row["seconds"]):
                    found[row["setting"]] = row
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        return found

    def _fits(self, folds: Any, seconds: Any) -> bool:
        """Whether these are metrics of every fold as they are wanted; what is damaged is done anew."""
        names: dict[tuple[str, ...], set[str]] = {}
        return len(folds) == len(self.search.all_folds) and all(
            self.search.metric in fold
            and names.setdefault(tuple(wanted), {*fold}) == {*fold}
            and all(isinstance(value, int | float) for value in (seconds, *fold.values()))
            for fold, wanted in zip(folds, self.search.wanted, strict=True)
        )

    def add(self, members: Sequence[int]) -> None:
        """Keep what was just found of these settings."""
        lines = [
            {"setting": self.keys[k], "seconds": self.search.seconds[k], "folds": self.search.tried[k]}
            for k in members
            if self.keys[k] is not None
        ]
        text = "".join(json.dumps(_plain(line)) + "\n" for line in lines)
        try:
            self._append(text) if self._has_begun() else self._begin(text)
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}") from error

    def _has_begun(self) -> bool:
        """Whether the file is there; InputError if another search has made it by now."""
        begun = self.path.exists() and self.path.stat().st_size > 0
        if begun and not self._begun:
            self._read()
        self._begun = True
        return begun

    def _begin(self, text: str) -> None:
        with replacing(self.path) as temporary:
            temporary.write_text(self._head + text, "utf-8", newline="\n")

    def _append(self, text: str) -> None:
        with self.path.open("rb+") as stream:
            stream.seek(-1, os.SEEK_END)
            cut_off = stream.read() != b"\n"  # by a kill, or a full disk
            stream.write(b"\n" * cut_off + text.encode())


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    """With floats of Python's, NaN among them."""
    return {**line, "folds": [{name: float(value) for name, value in fold.items()} for fold in line["folds"]]}


def _key(model: Any) -> str | None:
    """What makes a setting; None for a kernel that is known by no more than its object."""
    kernel = model.make_kernel()
    if not kernel.structure.comparable:
        return None
    others = {name: value for name, value in model.get_params(deep=False).items() if name not in _PLACES}
    return json.dumps(to_json({**others, "kernel": kernel.structure.as_dict()}), sort_keys=True)


def left(shared: Sequence[Shared], tried: Any, first: bool) -> list[Shared]:
    """The kernels with settings that are not tried yet; `first`: and the first one, which finds copies."""
    found = []
    for number, one in enumerate(shared):
        keep = [
            k
            for k, members in enumerate(one.members)
            if (first and number == 0 and k == _first(one)) or not all(m in tried for m in members)
        ]
        if keep:
            found.append(
                replace(one, kernels=[one.kernels[k] for k in keep], members=[one.members[k] for k in keep])
            )
    return found


def _first(one: Shared) -> int:
    """Whose Gram is made first: those of kernels that learn come last."""
    return min(range(len(one.kernels)), key=lambda k: one.kernels[k].structure.learns)


def of_kernel(shared: Sequence[Shared], setting: int) -> list[Shared]:
    """The kernel of one setting alone."""
    for one in shared:
        for kernel, members in zip(one.kernels, one.members, strict=True):
            if setting in members:
                return [replace(one, kernels=[kernel], members=[members])]
    return []
