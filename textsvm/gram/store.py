"""A folder of Grams on disk, for a set of texts in a single form and any number of kernels.

It is a module of its own because it decides what a matrix on disk is a matrix of: a search over C, folds or
settings, and a run after a kill, must find the panels of exactly these texts and this kernel, or none.

    DIR/store.json          format, number of texts, their form, and a digest of each kernel's view of them
    DIR/KERNEL-DIGEST/      a Gram: gram.json (the kernel with its parameters, rows per panel), and panels
                            (`textsvm.gram.panels`)
    DIR/.lock               held by the process that writes

Every file is written under a temporary name and moved into place, so an interrupted run leaves only valid
files, and the next run computes the missing panels. Reading takes no lock. Grams that another version of
textsvm wrote are deleted and computed again.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from textsvm.arrays import Json
from textsvm.errors import InputError, os_errors
from textsvm.gram.panels import Panels
from textsvm.gram.plan import show_bytes
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.files import replacing, sync_folder, try_lock
from textsvm.runtime.parallel import n_threads
from textsvm.runtime.plain_json import to_json
from textsvm.text.documents import Documents
from textsvm.version import __version__

FORMAT = 1
_STORE, _GRAM, _LOCK = "store.json", "gram.json", ".lock"
#: Errors of writing to a full disk, or beyond a quota.
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_TEXTS: dict[str, type] = {"n": int, "form": dict, "views": dict}  #: Required entries of store.json.
PANEL_BYTES = 128 << 20  #: Maximum bytes of a panel.
PANEL_SECONDS = 5.0  #: Maximum predicted seconds to compute a panel on a CPU: a killed run loses this work.
MIN_ROWS = 16  #: Minimum rows of a panel, since later panels read columns of this height.
ROWS_OF_LARGE = 256  #: Minimum rows of a panel where PANEL_BYTES would allow fewer.
#: Fields of `Documents` that do not affect stored values: class weights are part of a kernel's state.
_NOT_READ = ("characters", "classes")


@dataclass(frozen=True)
class GramRequest:
    """A Gram to compute or to find in a store."""

    kernel: Kernel  #: Fitted
    examples: Documents
    form: Mapping[str, Any]  #: Parameters that prepared the examples from the user's data
    device: Device  #: Where rows are computed and used

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.examples)

    def texts(self) -> Json:
        """Identity of the examples, common to all Grams of a store, as JSON values."""
        views = {repr(view): digest(self.examples.of(view)) for view in self.kernel.structure.views}
        return {"n": self.n, "form": to_json(dict(self.form)), "views": views}

    def gram(self) -> Json:
        """Identity of the kernel, as JSON values."""
        state = self.kernel.state()
        return {
            "kernel": json.loads(json.dumps(to_json(self.kernel.structure.as_dict()))),
            "learnt": digest(state) if state else "",
        }


@dataclass(frozen=True)
class StoredGram:
    """Location of a Gram, which may be incomplete; `manifest` is the content of its gram.json."""

    store: Store
    panels: Panels
    manifest: Mapping[str, Any]


class Store:
    """A folder of Grams: new, empty, or a store; InputError for other folders and unknown formats."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        #: Content of store.json; None in a new folder, or if another version of textsvm wrote it.
        self.texts: Json | None = None
        if (self.folder / _STORE).is_file():
            self._read_texts()
        elif self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"the store {folder} is a file; name a folder")
        elif any(not name.startswith(".") for name in _names(self.folder)):
            raise InputError(
                f"{folder} is not a store of kernel matrices: it has files and no {_STORE}; name a new or "
                "empty folder"
            )

    def _read_texts(self) -> None:
        content = _read_json(self.folder / _STORE, _TEXTS)
        self.texts = content if content["textsvm"] == __version__ else None

    def find(self, request: GramRequest, memory: int, rows: int | None = None) -> StoredGram:
        """Location of an existing or new Gram, with `rows` per panel, or as many as fit into `memory`."""
        texts, gram = request.texts(), request.gram()
        if self.texts is None:
            self._delete_other_versions(self.folder.glob(f"*/{_GRAM}"))
        self._require_same(texts)
        views = {view: texts["views"][view] for view in sorted(texts["views"])}
        name = digest({**gram, "views": views, "n": request.n})[:16]
        folder = self.folder / f"{request.kernel.name}-{name}"
        self._delete_other_versions([folder / _GRAM])
        if (folder / _GRAM).is_file():
            manifest = _read_json(folder / _GRAM, {"rows_of_panel": int})
            size = manifest["rows_of_panel"]
            if not 0 < size <= max(1, request.n):
                raise InputError(_damaged(folder / _GRAM))
        else:
            size = panel_rows(request, memory) if rows is None else rows
            manifest = {
                "format": FORMAT, "textsvm": __version__, "spelled": spell(request.kernel), **gram,
                "texts": texts, "rows_of_panel": size, "device": request.device.description,
            }  # fmt: skip
        return StoredGram(self, Panels(folder, request.n, size, name), {**manifest, "texts": texts})

    def _delete_other_versions(self, manifests: Iterable[Path]) -> None:
        """Delete those of some Grams that another version of textsvm wrote: its kernel values may differ."""

        def is_other(manifest: Path) -> bool:
            return manifest.is_file() and _read_json(manifest, {})["textsvm"] != __version__

        if not (others := list(filter(is_other, manifests))):
            return
        with self.lock():
            for manifest in filter(is_other, others):  # another process may have deleted it
                with os_errors(f"cannot delete {manifest.parent}"):
                    # Before the manifest, which says that they are old.
                    for panel in manifest.parent.glob("*.rows"):
                        panel.unlink()
                    shutil.rmtree(manifest.parent)

    def _require_same(self, texts: Mapping[str, Any]) -> None:
        stored = self.texts
        if stored is None:
            return
        another = "name another folder, or delete this one"
        for name, value in texts["form"].items():
            if (other := stored["form"].get(name)) != value:
                raise InputError(
                    f"the store {self.folder} is of texts with {name}={other!r}, and these have "
                    f"{name}={value!r}; {another}"
                )
        if stored["n"] != texts["n"]:
            raise InputError(
                f"the store {self.folder} is of other texts: {stored['n']:,} of them, and these are "
                f"{texts['n']:,}; {another}"
            )
        for view, value in texts["views"].items():
            if stored["views"].get(view, value) != value:
                raise InputError(
                    f"the store {self.folder} is of other texts, as many as these, or of these in another "
                    f"order; {another}"
                )

    def note(self, texts: Mapping[str, Any]) -> None:
        """Write the identity of its texts; inside `lock`."""
        if (self.folder / _STORE).is_file():  # written by another process since
            self._read_texts()
        self._require_same(texts)
        views = {**(self.texts or texts)["views"], **texts["views"]}
        if self.texts is None or views != self.texts["views"]:
            self.texts = {**texts, "format": FORMAT, "textsvm": __version__, "views": views}
            _write_json(self.folder / _STORE, self.texts)

    @contextmanager
    def writing(self, several: Sequence[StoredGram]) -> Iterator[None]:
        """Lock it for writing some of its Grams, and write their manifests."""
        self._require_room(several, "nothing was written")
        with self.lock():
            for gram in several:
                self.note(gram.manifest["texts"])
                with os_errors(f"cannot write {gram.panels.folder}"):
                    gram.panels.folder.mkdir(exist_ok=True)
                sync_folder(self.folder)
                if not (gram.panels.folder / _GRAM).exists():
                    _write_json(gram.panels.folder / _GRAM, gram.manifest)
            try:
                yield
            except InputError as error:
                if getattr(error.__cause__, "errno", None) in _FULL:
                    self._require_room(several, "complete parts are kept", full=True)
                raise

    def _require_room(self, several: Sequence[StoredGram], rest: str, full: bool = False) -> None:
        """Raise InputError if the disk has no room for the missing panels, or is full."""
        panels = [stored.panels for stored in several]
        needed = sum(part.bytes_of(number) for part in panels for number in part.missing())
        folder = self.folder.absolute()
        free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
        if needed > free or full:
            raise InputError(
                f"the kernel matrix of {panels[0].n:,} texts takes {show_bytes(needed)} more on disk and "
                f"{show_bytes(free)} are free in {self.folder}; name a folder with more room (--store), or "
                f"leave it out; {rest}"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other writing processes; the lock ends with the process."""
        with os_errors(f"cannot write the store {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        with open(handle, "r+", encoding="ascii", errors="replace") as stream:
            if not try_lock(stream.fileno()):
                who = stream.read(20).strip()
                raise InputError(
                    f"the store {self.folder} is being written by another process ({who or 'unknown'}); wait "
                    "for it, or name another folder"
                )
            stream.truncate(0)
            stream.write(str(os.getpid()))
            stream.flush()
            yield


def panel_rows(request: GramRequest, memory: int) -> int:
    """Rows per panel of a new Gram, limited by bytes, memory and predicted seconds."""
    n = request.n
    rows = min(max(ROWS_OF_LARGE, PANEL_BYTES // max(1, 4 * n)), memory // max(1, 16 * n))
    if request.device.kind == "cpu":
        seconds = request.kernel.cost.seconds(request.examples, request.examples) / max(1, n) / n_threads()
        rows = min(rows, int(PANEL_SECONDS / max(seconds, 1e-9)))
    return max(1, min(n, max(MIN_ROWS, rows)))


def digest(value: object) -> str:
    """Digest of arrays, and of dataclasses, mappings and sequences of arrays."""
    state = blake2b(digest_size=16)
    _add(state, value)
    return state.hexdigest()


def _add(state: Any, value: Any) -> None:
    if devices.is_on_gpu(value):
        value = devices.to_host(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        state.update(f"{value.dtype.str} {value.shape};".encode())
        state.update(np.ascontiguousarray(value).data.cast("B") if value.size else b"")
    elif isinstance(value, np.ndarray | list | tuple):
        state.update(f"{len(value)};".encode())
        for item in value:
            _add(state, item)
    elif isinstance(value, Mapping):
        _add(state, sorted((str(name), digest(item)) for name, item in value.items()))
    elif is_dataclass(value):
        names = [field.name for field in fields(value) if field.name not in _NOT_READ]
        _add(state, {name: getattr(value, name) for name in names})
    elif hasattr(value, "indptr"):  # a matrix of SciPy
        _add(state, [value.shape, value.indptr, value.indices, value.data])
    else:
        text = repr(value).encode("utf-8", "surrogatepass")
        state.update(f"{len(text)}:".encode() + text)


def _names(folder: Path) -> list[str]:
    with os_errors(f"cannot read the store {folder}"), suppress(FileNotFoundError):
        return os.listdir(folder)
    return []


def _read_json(path: Path, types: Mapping[str, type]) -> Json:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content["format"]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(_damaged(path)) from error
    if version != FORMAT:
        raise InputError(
            f"{path.parent} has store format {version!r}, and textsvm {__version__} reads {FORMAT}; "
            "use the version that wrote it, or name another folder"
        )
    types = {"textsvm": str, **types}
    if not all(isinstance(content.get(name), kind) for name, kind in types.items()):
        raise InputError(_damaged(path))
    return content


def _damaged(path: Path) -> str:
    return f"{path} is damaged; delete the folder {path.parent}, and it is computed again"


def _write_json(path: Path, value: Mapping[str, object]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8", newline="\n")
