"""The machines of `textsvm.OnlineSVC` with the texts that they keep, and their form in a model file.

Two classes have a single machine; more have a machine for each class, against the rest, and the largest value
wins. `textsvm.training.online` learns and unlearns texts.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Arrays, Floats, Ints, Json
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.inputs import as_texts
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.model.rules import ScaledRule, margins, scale_of
from textsvm.model.settings import OnlineSettings
from textsvm.model.trained import Expansion, Record, TrainedModel
from textsvm.runtime.device import Device, select
from textsvm.runtime.parallel import Progress
from textsvm.solvers.online import OnlineMachine
from textsvm.sources.base import Reader, Support
from textsvm.text.byte_pmers import byte_pmers, unit

_DIGEST = 16
_FORGOTTEN = -1.0  #: Coefficient in a model file of a text that a machine has forgotten.


@dataclass(frozen=True)
class ByteReader(Reader):
    """Texts as sets of p-mers of their UTF-8 bytes, which are not normalised."""

    p: int
    max_bytes: int | None = None  #: Only the first bytes of a text count; None for all

    def tag(self, input_tags: Any) -> None:
        input_tags.string, input_tags.two_d_array = True, False

    def validate(self, X: Any, n_features: int | None = None) -> list[str]:
        return as_texts(X)

    def encode_test(self, examples: Any, support: Support) -> list[tuple[AnyArray, AnyArray]]:
        return [self.features(text) for text in examples]

    def features(self, text: str) -> tuple[AnyArray, AnyArray]:
        """The p-mers of a text, and their values."""
        most = self.max_bytes
        keys = byte_pmers(text[:most].encode("utf-8", "surrogatepass")[:most], self.p)
        return keys, unit(keys)


@dataclass(eq=False)
class OnlineTexts:
    """Texts, numbered in order of arrival, and the machines that have learnt them."""

    classes: AnyArray
    machines: list[OnlineMachine]
    #: Digest of a text -> the numbers of its copies; number -> digest, and class.
    copies: dict[str, list[Hashable]] = field(default_factory=dict)
    digests: dict[Hashable, str] = field(default_factory=dict)
    codes: dict[Hashable, int] = field(default_factory=dict)
    n_seen: int = 0

    def note(self, name: Hashable, digest: str, code: int) -> None:
        self.copies.setdefault(digest, []).append(name)
        self.digests[name], self.codes[name] = digest, code

    def forget(self, name: Hashable) -> None:
        digest = self.digests.pop(name)
        del self.codes[name]
        self.copies[digest].remove(name)
        if not self.copies[digest]:
            del self.copies[digest]

    def add(self, name: Hashable, keys: AnyArray, code: int, alphas: Sequence[float] | None = None) -> None:
        """Add a text to the machines, with its dual variables if they are known."""
        first = 1 if len(self.machines) == 1 else 0
        for k, machine in enumerate(self.machines):
            alpha = 0.0 if alphas is None else alphas[k]
            if alpha != _FORGOTTEN:
                machine.add(name, keys, unit(keys), code == k + first, alpha)

    def keys_of(self, name: Hashable) -> AnyArray:
        return next(machine for machine in self.machines if name in machine).features(name)

    def settle(self) -> list[OnlineMachine]:
        """Optimise the machines, forget texts beyond their budget; machines that are not at their optimum."""
        stopped = [machine for machine in self.machines if not machine.settle()]
        for machine in self.machines:
            for name in machine.forgotten:
                if name in self.digests and not any(name in other for other in self.machines):
                    self.forget(name)
            machine.forgotten.clear()
        return stopped

    def left_out(self) -> tuple[Floats, Ints]:
        """Estimated leave-one-out decision values of the texts, and their class numbers, shape (n,).

        Texts that a machine has forgotten beyond its budget are left out.
        """
        by_machine = [
            dict(zip(machine.names, machine.left_out()[0].tolist(), strict=True)) for machine in self.machines
        ]
        names = [name for name in self.codes if all(name in values for values in by_machine)]
        rows = np.array([[values[name] for values in by_machine] for name in names], np.float64)
        rows = rows.reshape(len(names), len(by_machine))
        codes = np.array([self.codes[name] for name in names], np.int64)
        return rows[:, 0] if len(by_machine) == 1 else rows, codes

    def state(self) -> tuple[Json, Arrays]:
        """JSON values and arrays for `textsvm.save`: the features of all known texts and coefficients."""
        names = np.sort(np.array(list(self.codes), np.int64)).tolist()
        rows = [self.keys_of(name) for name in names]
        alphas = [machine.alphas for machine in self.machines]
        digests = bytes.fromhex("".join(self.digests[name] for name in names))
        n_support = np.zeros(len(self.classes), np.int64)
        for name in names:
            n_support[self.codes[name]] += any(alpha.get(name, 0.0) > 0 for alpha in alphas)
        arrays: Arrays = {
            "online.offsets": np.cumsum([0, *map(len, rows)]).astype(np.int64),
            "online.keys": np.concatenate([np.empty(0, np.uint64), *rows]),
            "online.numbers": np.array(names, np.int64),
            "online.codes": np.array([self.codes[name] for name in names], np.int64),
            "online.digests": np.frombuffer(digests, np.uint8).reshape(len(names), _DIGEST),
            "online.alpha": np.array(
                [[alpha.get(name, _FORGOTTEN) for name in names] for alpha in alphas], np.float64
            ),
        }
        return {"n_seen": self.n_seen, "n_support": n_support.tolist()}, arrays

    def restore(self, n_seen: int, arrays: Mapping[str, AnyArray]) -> None:
        """Add the texts of `state`; InputError or ValueError if it is invalid."""
        numbers, codes, offsets = (arrays[f"online.{name}"] for name in ("numbers", "codes", "offsets"))
        keys, digests, alpha = (arrays[f"online.{name}"] for name in ("keys", "digests", "alpha"))
        n = len(numbers)
        for array, kind, shape in (
            (numbers, np.int64, (n,)),
            (codes, np.int64, (n,)),
            (offsets, np.int64, (n + 1,)),
            (keys, np.uint64, (int(offsets[-1]),)),
            (digests, np.uint8, (n, _DIGEST)),
            (alpha, np.float64, (len(self.machines), n)),
        ):
            if array.dtype != kind or array.shape != shape:
                raise InputError("its arrays of an OnlineSVC do not fit each other")
        if offsets[0] != 0 or (np.diff(offsets) < 0).any() or (np.diff(numbers) <= 0).any():
            raise InputError("its texts are out of order")
        outside = n and (codes.min() < 0 or codes.max() >= len(self.classes))
        if outside or (n and (numbers[0] < 0 or numbers[-1] >= n_seen)):
            raise InputError("its texts have unknown classes or numbers")
        for i, (name, code) in enumerate(zip(numbers.tolist(), codes.tolist(), strict=True)):
            self.note(name, digests[i].tobytes().hex(), code)
            self.add(name, keys[offsets[i] : offsets[i + 1]], code, alpha[:, i].tolist())
        self.n_seen = n_seen


def digest_of(text: str) -> str:
    """Digest, in hexadecimal digits, by which a text is found again."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).hexdigest()


def new_machines(n_classes: int, settings: OnlineSettings) -> list[OnlineMachine]:
    """A machine for two classes, else a machine for each class."""
    n = 1 if n_classes == 2 else n_classes
    return [OnlineMachine(settings.C, settings.tol, settings.max_texts) for _ in range(n)]


@dataclass(frozen=True, eq=False)
class OnlineExpansion(Expansion):
    """Machines on sets of p-mers, with the texts that they keep."""

    texts: OnlineTexts

    def prepare(self, reader: Reader, device: Device) -> OnlinePredictor:
        return OnlinePredictor(self.texts.machines)

    @property
    def constant(self) -> bool:
        return False


class OnlinePredictor:
    """`Predictor` of online machines, with their biases."""

    def __init__(self, machines: Sequence[OnlineMachine]) -> None:
        self.machines, self.device = machines, select("cpu")

    def values(self, documents: Any, progress: Progress | None = None) -> Floats:
        """Values of the machines, shape (n, n_machines), from p-mers and values of the texts."""
        rows = [[machine.decision(*features) for machine in self.machines] for features in documents]
        return np.array(rows, np.float64).reshape(len(documents), len(self.machines))


def online_model(texts: OnlineTexts, settings: OnlineSettings, info: Json | None = None) -> TrainedModel:
    """The trained model of online machines, which must not change any more.

    The kernel counts symbols where the machines count bytes, which is the same for ASCII.
    """
    kernel: Kernel = Spectrum(p=settings.p, weight="presence", keep_case=True)
    n = len(texts.machines)
    expansion = OnlineExpansion(Support(np.empty(0, np.int64), kernel), np.empty((n, 0)), np.zeros(n), texts)
    values, codes = texts.left_out()
    rule = ScaledRule(texts.classes, scale=scale_of(values, codes, len(texts.classes)))
    record = Record(
        settings, np.array(texts.state()[0]["n_support"], np.int64), C=settings.C, device=select("cpu"),
        margin=float(np.median(margins(values))) if len(values) else None, info=info or {},
    )  # fmt: skip
    return TrainedModel(ByteReader(settings.p, settings.max_bytes), expansion, rule, record, "cpu")
