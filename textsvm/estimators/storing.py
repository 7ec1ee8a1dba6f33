"""The rows of a machine's examples: made in memory, or in a store on disk, where they stay."""

from __future__ import annotations

import os
from dataclasses import asdict, is_dataclass
from typing import Any

from textsvm.device import Device
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.gram.cards import sharded_gram, spread
from textsvm.gram.features import gram_of
from textsvm.gram.held import held_if_better
from textsvm.gram.plan import allowed_bytes, plan
from textsvm.gram.store import Store, Wanted
from textsvm.gram.stored import stored_gram
from textsvm.kernels.base import Kernel
from textsvm.parallel import Progress

#: A `textsvm.estimators.base.KernelMachine`, which imports this module.
Machine = Any


def check_store(machine: Machine) -> None:
    """Raise InputError if a store is asked for that is none, or that a machine has no kernel matrix for."""
    if machine.store is None:
        return
    if not isinstance(machine.store, str | os.PathLike) or not str(machine.store):
        raise InputError(f"store={machine.store!r} must be the name of a folder")
    if trouble := _why_not(machine):
        raise InputError(f"{trouble}; leave store out (--store)")
    Store(machine.store)


def _why_not(machine: Machine) -> str:
    kernel, solver, approximate = machine.kernel, machine.solver, machine.approximate
    if isinstance(kernel, str) and kernel == "precomputed":
        return "a kernel matrix that is given is not stored again"
    if isinstance(kernel, str) and kernel == "auto":
        return 'kernel="auto" has no kernel matrix of all texts to be stored, as a kernel that is named has'
    if approximate is not None:
        return "landmarks have a few values a text, and no kernel matrix to be stored"
    if isinstance(solver, str) and solver == "features":
        return 'with solver="features" there is no kernel matrix to be stored'
    made = machine.make_kernel()
    if not made.comparable or any(callable(view.tokens) for view in made.views):
        return "a function has no parameters that a stored kernel matrix could be known by"
    return ""


def wanted_of(machine: Machine, kernel: Kernel, examples: Any, device: Device) -> Wanted:
    """The Gram of a fitted kernel, as a store knows it."""
    form = machine.source.form
    return Wanted(kernel, examples, asdict(form) if is_dataclass(form) else {}, device)  # type: ignore[arg-type]


def make_gram(
    machine: Machine,
    kernel: Kernel,
    examples: Any,
    device: Device,
    memory: int | str | None,
    progress: Progress | None,
) -> Gram:
    """The Gram of examples and a fitted kernel, within the memory that rows may take."""
    wanted = wanted_of(machine, kernel, examples, device)
    if machine.store is not None:
        return spread(stored_gram(machine.store, wanted, memory, progress), device, memory)
    sharded = sharded_gram(kernel, examples, device, memory, progress)
    if sharded is not None:
        return sharded
    rows = kernel.rows(kernel.read(examples), device)
    gram = None if _why_not(machine) else held_if_better(rows, wanted, memory, progress)
    if gram is None:
        gram = gram_of(rows, memory, progress)
        slow = kernel.quadratic and machine.approximate is None
        if slow and not plan(len(examples), allowed_bytes(memory, device)).dense:
            gram.description += "; a store (--store DIR) would keep them on disk"
    return spread(gram, device, memory)
