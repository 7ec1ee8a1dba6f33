"""A support vector machine that learns and unlearns single examples, and stays at its optimum.

The problem is the C-SVM of `textsvm.SVC` with its free bias; with coefficients b_i = sign_i a_i it reads

    minimise  1/2 b'Kb - y'b,   sum b = 0,   b_i between 0 and C y_i,     y_i = +1 or -1, K = XX'

and F = Kb - y is its gradient. It is at the optimum when max over UP of -F <= min over DOWN of -F, to within
`tol` (`textsvm.solvers.smo`, whose inner loop optimises the pairs here). How each change restores the
optimum:

- *A new example* enters with b = 0, which is feasible. If its F agrees with the bias, nothing else changes:
  this holds for most examples once a few hundred are known, and 0 is their optimal coefficient. Otherwise
  pairs of variables are optimised, starting from the present coefficients.
- *A removed example* gives its coefficient c to others, so that the sum stays 0: to the i that has room and
  for which the objective rises least, c (F_i - F_r) + c^2 (K_ii + K_rr - 2 K_ir) / 2, or to several examples
  if necessary. Together the others always have room: they sum to -c. Then pairs are optimised.
- *A change of label* is a removal and an addition.

State. F of all n examples, in float64. The rows of K that pairs have needed, in float32, up to a number of
bytes, least recently used rows evicted first: support vectors and a few others, so that a step computes at
most two rows. w = X'b, for decisions: a look-up per feature of a text. The rows of X:
`textsvm.solvers.online_rows`.

The cost of a new example among n examples of m features each, which share a fraction s on average (s = 0.13
for mails): its row of K, s n m; a number in each cached row; and if it violates the optimality conditions,
2 n for each pair, and m for each changed coefficient, for w. No step costs n m, except when coefficients are
given (`add` with alpha), as when a machine is built from a store.

*Without a free bias* an additional variable, of a row without features, absorbs the sum: its F is 0, so the
bias is 0 too. Then values of different times are on the same scale, and examples of a single class rank
similar texts.

Memory: 8 to 18 bytes for each feature of each example (4 and 4, free room in the pools, and the table of
features; 17 measured on mails of 1,230 features), 100 per example, and the budget of the rows of K.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import Bools, Floats, Floats32, Ints, Words
from textsvm.errors import InputError
from textsvm.solvers import smo_loop as loop
from textsvm.solvers.online_rows import SparseRows, grown
from textsvm.solvers.solution import RELAXATION, violation_and_bias

STRETCH = 200  #: Pairs that are optimised between checks of the clock.
#: Maximum number of pairs in a call of `settle`: some seconds, far more than a mail takes.
MAX_PAIRS = 1_000_000
NO_BOUND = 1e9  #: A bound that no sum of coefficients reaches.
#: Part of an example's value that is due to its own coefficient, in units of alpha K(x, x); see `left_out`.
SHARE = 0.3


class OnlineMachine:
    """The exact C-SVM over sets of features, kept at its optimum while examples are added and removed.

    `tol` is the largest violation of the optimality conditions, in units of decision values. Beyond `budget`
    examples `settle` removes the most `redundant`. `memory` bytes are for rows of the kernel matrix. The
    values of an example may differ between 1 to 4 `blocks` of keys. Without `free_bias` the bias is 0.
    """

    def __init__(
        self, C: float = 10.0, tol: float = 1e-3, budget: int | None = None, memory: int = 128 << 20,
        free_bias: bool = True, blocks: int = 1,
    ) -> None:  # fmt: skip
        self.C, self.tol, self.budget, self.bias = float(C), float(tol), budget, 0.0
        self.pairs = 0  #: Pairs of variables that the last call of `settle` optimised.
        #: Names of examples removed to keep the budget; the caller may empty it.
        self.forgotten: list[Hashable] = []
        self._X = SparseRows(blocks)
        self._K = KeptRows(self._X, memory)
        self._places: dict[Hashable, int] = {}
        self._names: list[Hashable] = []
        self._added = 0  #: Number of examples added so far.
        self._new: list[int] = []  #: Places of examples added since the last `settle`.
        self._given = False  #: Whether coefficients were given, so that everything must be computed anew.
        self._state, self._extrema = np.array([-1, -1, 0, 0], np.int64), np.zeros(3)
        self._coef, self._spread, self._F = np.zeros(0), np.zeros(0), np.zeros(0)
        self._low, self._high = np.zeros(0), np.zeros(0)
        self._age, self._diag = np.zeros(0, np.int64), np.zeros(0, np.float32)
        #: The place of the variable that absorbs the sum.
        self._slack = None if free_bias else self._X.add(np.zeros(0, np.uint64), np.zeros(0, np.float32))
        if self._slack is not None:
            self._reserve(self._slack + 1)
            self._low[self._slack], self._high[self._slack] = -NO_BOUND, NO_BOUND

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._places

    @property
    def names(self) -> list[Hashable]:
        """Names of all examples, in the order of `left_out`."""
        return list(self._places)

    def features(self, name: Hashable) -> Words:
        """The features of an example."""
        return self._X.columns.keys[self._X.rows[self._places[name]]]

    @property
    def alphas(self) -> dict[Hashable, float]:
        """The dual variable of each example, by its name; most are 0."""
        return {name: abs(float(self._coef[place])) for name, place in self._places.items()}

    @property
    def violation(self) -> float:
        """The largest violation of the optimality conditions; 0 or less at an optimum."""
        return violation_and_bias(*self._problem)[0]

    def add(
        self, name: Hashable, keys: ArrayLike, values: ArrayLike, positive: bool, alpha: float = 0.0
    ) -> None:
        """Add an example, or replace the example of this name; `settle` then restores the optimum.

        `keys` (uint64) are its distinct features, `values` their values, > 0 and the same for all of a block,
        and `alpha` its dual variable if it is known, from 0 to C.
        """
        keys, values = np.ascontiguousarray(keys, np.uint64), np.asarray(values, np.float32)
        ends = self._X.block_ends(keys)
        sizes = np.diff(ends, prepend=0)
        if len(values) and not ((values > 0).all() and (values == values[ends - 1].repeat(sizes)).all()):
            raise InputError("all features of an example must have the same value, above 0")
        if not (keys[1:] > keys[:-1]).all() and len(np.unique(keys)) < len(keys):
            raise InputError("the features of an example must be distinct")
        if not 0 <= alpha <= self.C:
            raise InputError(f"alpha must be from 0 to C={self.C:g}, got {alpha!r}")
        if name in self._places:
            self.remove(name)
        place = self._X.add(keys, values)
        self._reserve(place + 1)
        sign = 1.0 if positive else -1.0
        self._coef[place], self._spread[place] = sign * alpha, 0.0
        self._low[place], self._high[place] = min(sign, 0.0) * self.C, max(sign, 0.0) * self.C
        self._F[place], self._diag[place] = -sign, sizes @ self._X.scale[place] ** 2
        self._age[place] = self._added
        self._added += 1
        self._places[name], self._names[place] = place, name
        self._new.append(place)
        self._given |= alpha > 0

    def remove(self, name: Hashable) -> None:
        """Remove an example; `settle` then restores the optimum. Raises KeyError for an unknown name."""
        place = self._places[name]
        if self._coef[place] and not self._given:
            self._catch_up()
            self._give_away(place)
        self._X.spread(np.array([place]), -self._spread[[place]])
        self._X.remove(place)
        del self._places[name]
        for array in (self._coef, self._spread, self._F, self._low, self._high, self._diag):
            array[place] = 0
        self._names[place] = None
        if place in self._new:
            self._new.remove(place)
        self._K.drop(place)

    def settle(self, seconds: float | None = None) -> bool:
        """Optimise, and remove examples beyond the budget; return whether the optimum is reached.

        At the time limit in seconds, and after `MAX_PAIRS` pairs, the next call continues.
        """
        end = np.inf if seconds is None else time.perf_counter() + seconds
        self.pairs = 0
        self._catch_up()
        done = self._optimise(end)
        while done and self.budget is not None and len(self) > self.budget:
            for name in self.redundant(len(self) - self.budget):
                self.remove(name)
                self.forgotten.append(name)
            done = self._optimise(end)
        self.bias = violation_and_bias(*self._problem)[1] if self._slack is None else 0.0
        self._weigh()
        return done

    def decision(self, keys: ArrayLike, values: ArrayLike) -> float:
        """Value of the decision function at a vector; above 0 for the positive class."""
        return self._X.value(np.ascontiguousarray(keys, np.uint64), np.asarray(values)) + self.bias

    def left_out(self, share: float = SHARE) -> tuple[Floats, Bools]:
        """Estimate the leave-one-out decision value of each example.

        It is the present value for an example with a dual variable of 0. For the others it is smaller by at
        most alpha K(x, x) (Jaakkola and Haussler 1999), less the part of the example that others span (Vapnik
        and Chapelle 2000). `share` of this is subtracted; `SHARE` gave the fewest "unsure" spam messages
        of SpamAssassin's, with as few false positives as Bogofilter.

        Returns values, shape (n,), and whether each example is positive.
        """
        self._catch_up()
        places = self._every
        positive = self._high[places] > 0
        values = self._F[places] + np.where(positive, 1.0, -1.0) + self.bias
        return values - share * self._coef[places] * self._diag[places], positive

    def weights(self) -> tuple[Words, Floats32]:
        """The features of nonzero weight, ascending, and their weights."""
        columns = self._X.columns
        weights = self._X.weights[: columns.n].astype(np.float32)
        used = np.flatnonzero(weights)
        used = used[np.argsort(columns.keys[used])]
        return columns.keys[used], weights[used]

    def redundant(self, most: int) -> list[Hashable]:
        """Names of up to `most` examples that the optimum needs least.

        First examples with a dual variable of 0, by descending margin and then age; then support vectors, by
        ascending alpha.
        """
        places = self._every
        sign = self._sign[places]
        alpha = np.abs(self._coef[places])
        margin = np.round(sign * (self._F[places] + self.bias), 9)
        order = np.lexsort((self._age[places], -margin, alpha))[:most]
        return [self._names[place] for place in places[order]]

    @property
    def _every(self) -> Ints:
        return np.fromiter(self._places.values(), np.int64, len(self._places))

    @property
    def _sign(self) -> Floats:
        """y by place; 0 where there is no example."""
        return np.sign(self._low + self._high)

    def _reserve(self, n: int) -> None:
        if n <= len(self._coef):
            return
        for name in ("_coef", "_spread", "_F", "_low", "_high", "_age", "_diag"):
            setattr(self, name, grown(getattr(self, name), n))
        self._names += [None] * (len(self._coef) - len(self._names))
        self._K.reserve(len(self._coef))

    def _catch_up(self) -> None:
        """Update F and the rows of K for examples added since the last call."""
        if self._given:
            self._start_from_given()
        elif len(self._new) > len(self._K):
            self._K.clear()
            self._weigh()
            new = np.array(self._new)
            self._F[new] = self._X.sums(new) - self._sign[new]
        else:
            for place in self._new:
                row = self._K.add(place)
                sign = self._sign[place]
                self._F[place] = row.astype(np.float64) @ self._coef[: len(row)] - sign
                if sign * (self._F[place] + self.bias) > 0:
                    self._K.drop(place)  # no pair will need it
        self._new.clear()

    def _weigh(self) -> None:
        """Update w for the coefficients that have changed."""
        changed = np.flatnonzero(self._coef != self._spread)
        self._X.spread(changed, (self._coef - self._spread)[changed])
        self._spread[changed] = self._coef[changed]

    def _start_from_given(self) -> None:
        """Make given coefficients feasible, of sum 0, and compute everything else from them."""
        self._K.clear()
        if self._slack is not None:
            self._coef[self._slack] = 0.0
            self._coef[self._slack] = -self._coef.sum()
        else:
            positive, negative = self._coef > 0, self._coef < 0
            above, below = self._coef[positive].sum(), -self._coef[negative].sum()
            if above != below:
                side = positive if above > below else negative
                self._coef[side] *= min(above, below) / max(above, below)
        self._X.weights[:] = 0
        every = np.flatnonzero(self._coef)
        self._X.spread(every, self._coef[every])
        self._spread[:] = self._coef
        n = self._X.n
        self._F[:n] = self._X.sums(np.arange(n)) - self._sign[:n]
        self._given = False

    def _give_away(self, place: int) -> None:
        """Move the coefficient of an example to others, so that the sum stays 0."""
        n = self._X.n
        while self._coef[place]:
            c = self._coef[place]
            row = self._K.row(place)
            room = (self._high - self._coef if c > 0 else self._coef - self._low)[:n]
            room[place] = 0
            if not room.any():  # a remainder of rounding
                self._F[:n] -= c * row.astype(np.float64)
                self._coef[place] = 0.0
                break
            step = np.minimum(abs(c), room)
            curvature = self._diag[:n] + self._diag[place] - 2 * row
            rate = np.sign(c) * (self._F[:n] - self._F[place]) + 0.5 * step * curvature
            other = int(np.argmin(np.where(room > 0, rate, np.inf)))
            step = np.sign(c) * step[other]
            self._coef[other] += step
            self._coef[place] = 0.0 if abs(step) == abs(c) else c - step
            row = row.copy()  # the other row may take its slot
            self._F[:n] += step * (self._K.row(other).astype(np.float64) - row)

    def _optimise(self, end: float) -> bool:
        """Optimise pairs until the time `end`; return whether the optimum is reached."""
        if not (n := self._X.n):
            return True
        rows, gains = np.arange(n), np.zeros(n, np.float32)
        F, coef, low, high = self._problem
        up, down = np.where(coef < high, 0.0, -np.inf), np.where(coef > low, 0.0, -np.inf)
        tile, none = np.zeros((0, 0), np.float32), np.zeros(0, np.int64)
        self._state[loop.CLOCK] = self._K.used.max()
        loop.find_first(F, up, down, gains, self._state, self._extrema)
        while self.pairs < MAX_PAIRS:
            relaxation = 1.0 if self.pairs < 2 * n else RELAXATION
            reason, done = loop.iterate(
                STRETCH, F, self.tol, relaxation, self._K.values, self._K.slots, self._K.used, tile, none,
                none, rows, coef, low, high, up, down, self._diag[:n], gains, self._state, self._extrema,
            )  # fmt: skip
            self.pairs += done
            if reason == loop.MISSING:
                for place in self._state[[loop.AT_I, loop.AT_J]]:
                    if place >= 0:
                        self._K.row(place)
                self._state[loop.CLOCK] = self._K.used.max()
            elif reason != loop.BUDGET:
                return bool(reason == loop.OPTIMAL)
            if time.perf_counter() > end:
                break
        return False

    @property
    def _problem(self) -> tuple[Floats, Floats, Floats, Floats]:
        n = self._X.n
        return self._F[:n], self._coef[:n], self._low[:n], self._high[:n]


class KeptRows:
    """Rows of K = XX' in float32, up to `memory` bytes, least recently used rows evicted first."""

    def __init__(self, X: SparseRows, memory: int) -> None:
        self._X, self.memory = X, memory
        # The system commits memory of a row when it is first written.
        self._store = np.empty(max(64, memory // 4), np.float32)
        #: shape (height, room): 0 past column X.n; a free place holds any finite number.
        self.values = self._store[:0].reshape(0, 0)
        self.slots = np.zeros(0, np.int64)  #: shape (room,): Slot of each example's row in `values`, or -1.
        #: shape (height,): Time of the last use of each slot, from a counter.
        self.used = np.zeros(0, np.int64)
        self._owner = np.zeros(0, np.int64)

    def __getstate__(self) -> dict[str, Any]:
        return {"X": self._X, "memory": self.memory, "room": len(self.slots)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        KeptRows.__init__(self, state["X"], state["memory"])
        self.reserve(state["room"])

    def __len__(self) -> int:
        return int(np.count_nonzero(self._owner >= 0))

    def row(self, place: int) -> Floats32:
        """The row of an example, shape (X.n,), computed if it is not kept."""
        slot = int(self.slots[place])
        if slot < 0:
            slot = int(np.argmin(self.used))
            if self._owner[slot] >= 0:
                self.slots[self._owner[slot]] = -1
            self._owner[slot], self.slots[place] = place, slot
            self._X.products(place, self.values[slot, : self._X.n])
            self.values[slot, self._X.n :] = 0
        self.used[slot] = self.used.max() + 1
        return self.values[slot, : self._X.n]

    def add(self, place: int) -> Floats32:
        """The row of a new example; its values become a column of the other rows."""
        row = self.row(place)
        resident = np.flatnonzero(self._owner >= 0)
        self.values[resident, place] = row[self._owner[resident]]
        return row

    def drop(self, place: int) -> None:
        """Drop the row of an example, if it is kept."""
        slot = int(self.slots[place])
        if slot >= 0:
            self._owner[slot], self.used[slot], self.slots[place] = -1, 0, -1

    def clear(self) -> None:
        self._owner[:], self.used[:], self.slots[:] = -1, 0, -1

    def reserve(self, room: int) -> None:
        """Make room for this number of examples: rows become wider; the last used rows that fit are kept."""
        before, height = len(self.slots), max(2, min(room, self.memory // (4 * max(room, 1))))
        if len(self._store) < height * room:
            more = np.empty(height * room - len(self._store), np.float32)
            self._store = np.concatenate([self._store, more])
        resident = np.flatnonzero(self._owner >= 0)
        resident = np.sort(resident[np.argsort(-self.used[resident], kind="stable")][:height])
        # In place: first move all rows to the front, then each to its new position, from the last on.
        for slot, old in enumerate(resident):
            self._store[slot * before : (slot + 1) * before] = self.values[old]
        self.values = self._store[: height * room].reshape(height, room)
        for slot in range(len(resident))[::-1]:
            self.values[slot, :before] = self._store[slot * before : (slot + 1) * before]
            self.values[slot, before:] = 0
        used, owner = self.used[resident], self._owner[resident]
        self.used, self._owner = np.zeros(height, np.int64), np.full(height, -1, np.int64)
        self.used[: len(resident)], self._owner[: len(resident)] = used, owner
        self.slots = np.full(room, -1, np.int64)
        self.slots[owner] = np.arange(len(resident))
