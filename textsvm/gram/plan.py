"""Decide whether to train from features or a kernel matrix, and where to keep the matrix.

This is the single planner: nobody else decides, and the reason is printed in one sentence. `plan_features`
and `plan_gram` are pure functions of numbers that return a `Plan`;
`textsvm.training.grams` and `textsvm.gram.build` execute it. The tiers of a kernel matrix:

    device      the whole matrix, in the memory of the device that runs the solver
    host        the whole matrix in main memory, and a cache of rows on the card
    disk        the whole matrix in a store on disk, and a cache of rows in memory
    recompute   a cache of rows; rows outside it are computed when the solver reads them

A matrix that fits into memory is computed as a whole, without any prediction. Otherwise, with memory for m of
its n rows, the number of rows that the solver reads is predicted as

    R = 0.54 n sqrt(n / m)

This is 2.4, 1.7, 1.1 and 0.76 n with memory for 5, 10, 25 and 50 % of the rows. The geometric means over the
seven problems of reports/tiers.md are 2.3, 1.7, 1.2 and 0.75 n; single problems read 0.25 to 2.4 times R.
R is k^(1/4) times as large if k rows are requested at a time; on a card, 1.5 times.
The matrix is symmetric, so half of its values are computed, and of its `BANDS` diagonal blocks both halves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

from textsvm.errors import InputError
from textsvm.kernels.contract import COUNT, PRODUCT, VALUE

SOLVERS = ("auto", "gram", "features")
TIERS = ("auto", "device", "host", "disk", "recompute")
BANDS = 16  #: Number of column blocks of a stored matrix (`textsvm.gram.stored`).
#: Seconds per request of rows that a solver and its cache take, by the kind of device.
REQUEST_SECONDS = {"cpu": 1e-4, "cuda": 1.4e-3}
#: Rows that a solver on a card reads, relative to R (geometric mean of the five kernels of reports/tiers.md).
CARD_ROWS = 1.5
#: Requests of a solver on a card per document: working sets of 1,024 name each document 5.6 times.
CARD_REQUESTS = 5.6 / 1024
MIN_BYTES = 1 << 30  #: Smallest matrix for which the throughput of this computer is measured, in bytes.
#: If the matrix does not fit into memory, features are used up to this multiple of the time predicted for a
#: matrix in memory: rows that are computed again, or read from disk, take several times as long.
MAX_SLOWDOWN = 30
#: Cores that the choice between features and a matrix assumes: the model must not depend on the computer.
CORES = 2
MANY_START = 1e-2  #: Many classes (`textsvm.solvers.many_classes`): seconds of a core per machine.
#: Many classes: seconds of a core per machine and document from features, and from a kernel matrix.
MANY_ROW = 2e-7
MANY_MATRIX_ROW = 5e-7
#: Users are warned if more kernel values will be computed than this multiple of n^2 / 2, the values of a
#: symmetric matrix.
SLOW = 5
_SOURCES = {"host": "from main memory", "disk": "from disk", "recompute": "computed again"}


@dataclass(frozen=True)
class Costs:
    """Seconds and memory of training."""

    count: float  #: Seconds to count an occurrence of a feature
    pair: float  #: Seconds per kernel value, until the machines are trained
    memory: int  #: Peak bytes per occurrence
    product: float = 0.0  #: Seconds per document and occurrence of a feature
    dual: float = 0.0  #: Seconds of training from the matrix, times n^1.5 and machines^0.75
    solve: float = 0.0  #: Seconds per occurrence while solving
    machine: float = 0.0  #: Additional seconds per occurrence and machine
    row: float = 0.0  #: Seconds per document and machine
    start: float = 0.0  #: Seconds per machine


#: By the kind of device: a core of a CPU, fitted to reports/plan.md (machine, row: other solvers than
#: coordinate descent); an H200, fitted to reports/gpu/million.md.
COSTS = {
    "cpu": Costs(COUNT, VALUE, memory=24, product=PRODUCT, dual=1.2e-7, machine=2e-8, row=2e-6),
    "cuda": Costs(1e-9, 1.3e-9, memory=8, solve=3.5e-9, start=1.5),
}
VISIT = 1e-9  #: Coordinate descent: seconds per pass, occurrence and machine, for 3 million occurrences.


@dataclass(frozen=True)
class Passes:
    """Passes of coordinate descent (`textsvm.solvers.columns`) over the rows, fitted to reports/plan.md."""

    C: float
    rough: bool  #: The tolerance of the default kernels

    def seconds(self, machines: int, occurrences: int, cores: int) -> float:
        """Predicted seconds, with 2 ms before and after the passes."""
        C = max(self.C, 0.5)
        passes = 14.5 * (0.78 * C**0.2 if self.rough else C**0.5)
        passes *= machines**0.25  # machines that are trained side by side share the caches
        visit = VISIT * (occurrences / 3e6) ** 0.1  # more weights are outside of the caches
        return 2e-3 + passes * machines * occurrences * visit / min(cores, max(1, machines))


@dataclass(frozen=True)
class FeatureCase:
    """Training from the features of a kernel, without a kernel matrix."""

    occurrences: int = 0  #: Of all features in all documents
    machines: int = 1
    slowdown: float = 1.0  #: Time of other solvers than coordinate descent, on a CPU
    passes: Passes | None = None  #: Of coordinate descent, if that is the solver on a CPU
    density: float = 1.0  #: Mean `Features.density` of the occurrences
    disk_bytes: int | None = None  #: Size of the features if they can be kept on disk
    host_memory: int = 0  #: Bytes that the features of a GPU may take in main memory
    obstacle: str = ""  #: Why they cannot be used, for the user; empty if they can
    many_classes: bool = False  #: Whether `textsvm.solvers.many_classes` trains the machines on a CPU

    def seconds(self, n: int, device: str) -> tuple[float, float]:
        """Predicted seconds with a kernel matrix of n documents, and from features."""
        cores, costs = CORES if device == "cpu" else 1, COSTS[device]
        count = self.occurrences * costs.count
        matrix = count + n**2 * costs.pair + n * self.occurrences * self.density * costs.product
        if device == "cpu" and self.many_classes:
            matrix += self.machines * n * MANY_MATRIX_ROW
        else:
            matrix += n**1.5 * self.machines**0.75 * costs.dual
        return matrix / cores, count / cores + self.solving(n, device, cores)

    def solving(self, n: int, device: str, cores: int) -> float:
        """Predicted seconds of training from the features of n documents that have been counted."""
        if device == "cpu" and self.many_classes:
            return self.machines * (MANY_START + n * MANY_ROW) / cores
        if device == "cpu" and self.passes is not None:
            return self.passes.seconds(self.machines, self.occurrences, cores)
        costs = COSTS[device]
        per_machine = self.slowdown * (self.occurrences * costs.machine + n * costs.row) + costs.start
        solve = self.occurrences * costs.solve + self.machines * per_machine
        return solve / max(1, min(cores, self.machines))


@dataclass(frozen=True)
class Rates:
    """Throughput per second: of the kernel as measured, of memory and disk as usual beside a card."""

    compute: float = inf  #: Kernel values within a call that computes rows
    call: float = 0.0  #: Seconds per call that computes rows, in addition to its values
    bus: float = 2.5e10  #: Bytes from main memory to the card: half of PCIe 5's (reports/tiers.md)
    allocate: float = 6.4e9  #: Bytes of main memory, for rows that a card reads (reports/tiers.md)
    read: float = 1e9  #: Bytes from the disk
    write: float = 1e9  #: Bytes to the disk


@dataclass(frozen=True)
class Case:
    """Input of the planner."""

    n: int  #: Documents
    memory: int  #: Bytes that rows may take on the device that solves
    device: str = "cpu"  #: {"cpu", "cuda"}
    device_name: str = "main memory"  #: Memory of the device, in messages
    tier: str = "auto"  #: Requested by the user, from `TIERS`
    matrices: int = 1  #: Matrices that exist at a time while the whole matrix is computed
    capacity: int = 0  #: Rows that fit into `memory`, if known
    request: int = 1  #: Maximum rows that are computed, or read, at a time when the solver reads rows
    host_memory: int = 0  #: Bytes that rows may take in main memory; 0 if they cannot be kept there
    store: bool = False  #: Whether a folder on disk keeps the matrix
    stored: float = 0.0  #: Fraction of the matrix that is there already
    suggest_store: bool = False  #: Whether to recommend a store where rows are computed again

    @property
    def bytes(self) -> int:
        """Size of the whole matrix."""
        return 4 * self.n * self.n

    @property
    def fits(self) -> bool:
        """Whether the whole matrix fits, with the memory that computing it takes."""
        return (1 if self.store else self.matrices) * self.bytes <= self.memory

    @property
    def rows_read(self) -> float:
        """Predicted number of rows that a solver reads."""
        ratio = CARD_ROWS if self.device == "cuda" else self.request**0.25
        return 0.54 * ratio * self.n * sqrt(self.n / min(self.n, max(1, self.capacity)))

    def seconds(self, tier: str, rates: Rates) -> float:
        """Predicted seconds for computing the matrix, if it is kept, and for the rows that a solver reads."""
        solver_calls = self.rows_read / self.request
        requests = CARD_REQUESTS * self.n if self.device == "cuda" else solver_calls
        reading = requests * REQUEST_SECONDS[self.device]
        if tier == "recompute":
            calls = max(solver_calls, requests)
            return reading + self.n * self.rows_read / rates.compute + calls * rates.call
        missing = 1 - self.stored
        # The columns of each band are prepared, and a panel takes at most a quarter of the memory.
        build_calls = BANDS + max(BANDS, 4 * self.n / max(1, self.capacity))
        computing = missing * (self.n**2 * (0.5 + 0.5 / BANDS) / rates.compute + build_calls * rates.call)
        if self.store:  # written while the next part is computed
            computing = max(computing, missing * self.bytes / rates.write)
        if tier == "disk":
            return computing + reading + 4 * self.n * self.rows_read / rates.read
        keeping = self.bytes / rates.allocate + (self.bytes / rates.read if self.store else 0.0)
        return computing + keeping + reading + 4 * self.n * self.rows_read / rates.bus


@dataclass(frozen=True)
class Plan:
    """Decision of the planner."""

    way: str  #: {"features", "gram"}: Train from features, or from rows of a kernel matrix
    #: {"device", "host", "disk", "recompute"}: Where the kernel matrix is kept if a solver reads its rows;
    #: where sparse features are kept ("device" or "disk").
    tier: str
    memory: int  #: Bytes that rows may take on the device
    reason: str  #: Shown to the user


GRAM = Plan("gram", "", 0, "")  #: Train from a kernel matrix, whose tier `plan_gram` decides.


def candidates(case: Case) -> tuple[str, ...]:
    """Tiers that a kernel matrix can have; `plan_gram` needs `Rates` only if there are several.

    Raises InputError if the user requests a tier that does not fit into memory.
    """
    if case.tier != "auto":
        return (_requested(case),)
    if case.fits:
        return ("device",)
    other = "disk" if case.store else "recompute"
    if case.device == "cpu" or not MIN_BYTES <= case.bytes <= case.host_memory:
        return (other,)
    return ("host", other)


def plan_gram(case: Case, rates: Rates | None = None) -> Plan:
    """Decide where a kernel matrix is kept; `rates` is needed if there are several `candidates`.

    Raises InputError if the user requests a tier that does not fit into memory.
    """
    tiers = candidates(case)
    predicted = {name: case.seconds(name, rates or Rates()) for name in tiers if len(tiers) > 1}
    tier = min(tiers, key=lambda name: predicted.get(name, 0.0))
    need, allowed = show_bytes(case.bytes), show_bytes(case.memory)
    reason = {
        "device": f"whole kernel matrix in memory ({need} of {allowed})",
        "host": f"rows held in main memory ({need}), cached within {allowed}",
    }.get(tier, f"rows on demand, cached within {allowed} (the whole matrix would take {need})")
    if case.tier != "auto":
        reason += ", as requested"
    elif len(tiers) > 1:
        order = [tier, *(other for other in tiers if other != tier)]
        reason += ": predicted " + ", ".join(f"{predicted[name]:.2g} s {_SOURCES[name]}" for name in order)
    if tier == "recompute" and case.suggest_store:
        reason += "; a store (--store DIR) would keep them on disk"
    return Plan("gram", tier, case.memory, reason)


def plan_features(case: Case, features: FeatureCase, features_requested: bool) -> Plan:
    """The plan to train from sparse features or from a matrix; `reason` may be empty for a matrix.

    Raises InputError if features are requested and cannot be used.
    """
    obstacle = features.obstacle or _too_large(case, features)
    if features_requested and obstacle:
        raise InputError(obstacle)
    if obstacle:
        return GRAM
    with_matrix, seconds = features.seconds(case.n, case.device)
    on = f" on {CORES} cores" if case.device == "cpu" else ""
    if features_requested:
        reason = "as requested"
    elif case.bytes > case.memory and seconds < MAX_SLOWDOWN * with_matrix:
        reason = f"a kernel matrix would take {show_bytes(case.bytes)} of {show_bytes(case.memory)}"
    elif seconds < with_matrix:
        reason = f"predicted {seconds:.2g} s{on}, with a kernel matrix {with_matrix:.2g} s"
    else:
        reason = f"predicted {with_matrix:.2g} s{on}, from features {seconds:.2g} s"
        return replace(GRAM, reason=reason if case.bytes <= case.memory else "")
    on_disk = features.disk_bytes is not None and features.disk_bytes > case.memory
    tier, reason = ("disk", f"{reason}; on disk") if on_disk else ("device", reason)
    return Plan("features", tier, case.memory, reason)


def _too_large(case: Case, features: FeatureCase) -> str:
    """Why features do not fit into memory; empty if they do, or can be kept on disk."""
    needed = COSTS[case.device].memory * features.occurrences
    if needed <= max(case.memory, features.host_memory) or features.disk_bytes is not None:
        return ""
    return (
        f"the features of {case.n:,} documents need about {show_bytes(needed)} of memory and "
        f"{show_bytes(case.memory)} are allowed; take fewer lengths (p), shorten the documents (max_length, "
        "--max-length) or raise memory (--memory)"
    )


def _requested(case: Case) -> str:
    """The tier that the user requests ("host" is "device" on a CPU); InputError if it does not fit."""
    tier = "device" if case.tier == "host" and case.device == "cpu" else case.tier
    room = {"device": case.memory, "host": case.host_memory}.get(tier)
    if room is None or (case.fits if tier == "device" else case.bytes <= room):
        return tier
    place = case.device_name if tier == "device" else "main memory"
    raise InputError(
        f"tier={case.tier!r} is not possible: the whole kernel matrix takes {show_bytes(case.bytes)} and "
        f"{show_bytes(room)} of {place} may be used; raise memory (--memory), or choose another tier"
    )


def show_bytes(count: int) -> str:
    """A number of bytes for people: 1.5 GiB."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"
