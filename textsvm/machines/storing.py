"""The rows of a machine's examples: where they lie, and a store on disk in which they stay."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.gram.cards import sharded_gram, spread
from textsvm.gram.features import gram_of
from textsvm.gram.plan import allowed_bytes
from textsvm.gram.planned import Asked, Planned
from textsvm.gram.store import Store, Wanted
from textsvm.gram.stored_together import complete_together
from textsvm.gram.tiers import TIERS
from textsvm.kernels.base import Kernel
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress

#: A `textsvm.machines.base.KernelMachine`, which imports this module.
Machine = Any


def check_store(machine: Machine) -> None:
    """Raise InputError if a store is asked for that is none, or that a machine has no kernel matrix for."""
    check_tier(machine)
    if machine.compute.store is None:
        return
    if not isinstance(machine.compute.store, str | os.PathLike) or not str(machine.compute.store):
        raise InputError(f"store={machine.compute.store!r} must be the name of a folder")
    if trouble := _why_not(machine):
        raise InputError(f"{trouble}; leave store out (--store)")
    Store(machine.compute.store)


def check_tier(machine: Machine) -> None:
    """Raise InputError if a tier is asked for that is none, or that a machine has no kernel matrix for."""
    tier = machine.compute.tier
    if not isinstance(tier, str) or tier not in TIERS:
        raise InputError(f"tier={tier!r} is not one of {', '.join(TIERS)}")
    if tier == "auto":
        return
    if trouble := _why_not(machine) if tier in ("host", "disk") else _no_matrix(machine):
        raise InputError(f"{trouble}; leave tier out (--tier)")
    if tier == "disk" and machine.compute.store is None:
        raise InputError('tier="disk" needs a folder to keep the kernel matrix in: name one (store, --store)')
    if tier == "recompute" and machine.compute.store is not None:
        raise InputError('tier="recompute" computes rows again and reads no store; leave one of the two out')


def without_store(machine: Machine) -> Machine:
    """The same machine, of other examples than its store is of."""
    return machine.copy().set_params(
        compute__store=None, compute__tier="auto" if machine.compute.tier == "disk" else machine.compute.tier
    )


def _no_matrix(machine: Machine) -> str:
    """Why a machine has no kernel matrix of its own; "" if it has."""
    kernel, solver, approximate = machine.kernel, machine.compute.solver, machine.compute.approximate
    if isinstance(kernel, str) and kernel == "precomputed":
        return "a kernel matrix that is given is not stored again"
    if isinstance(kernel, str) and kernel == "auto":
        return 'kernel="auto" has no kernel matrix of all texts to be stored, as a kernel that is named has'
    if approximate is not None:
        return "landmarks have a few values a text, and no kernel matrix to be stored"
    if isinstance(solver, str) and solver == "features":
        return 'with solver="features" there is no kernel matrix to be stored'
    return ""


def _why_not(machine: Machine) -> str:
    """Why rows of a machine cannot be made elsewhere, or be known again; "" if they can."""
    if trouble := _no_matrix(machine):
        return trouble
    made = machine.make_kernel()
    if not made.structure.comparable or any(callable(view.tokens) for view in made.structure.views):
        return "a function has no parameters that a stored kernel matrix could be known by"
    return ""


def wanted_of(machine: Machine, kernel: Kernel, examples: Any, device: Device) -> Wanted:
    """The Gram of a fitted kernel, as a store knows it."""
    form = machine.source.form
    return Wanted(kernel, examples, asdict(form) if is_dataclass(form) else {}, device)  # type: ignore[arg-type]


def store_together(
    machine: Machine, kernels: Sequence[Kernel], examples: Any, device: Device, progress: Progress | None
) -> None:
    """Make what the store lacks of the Grams of kernels that share a pass, together; others are left."""
    memory = allowed_bytes(machine.source.memory(machine.compute.memory, len(examples), device), device)
    alike: dict[Hashable, list[Kernel]] = {}
    for kernel in kernels:
        if kernel.cost.sharing is not None and not kernel.structure.learns:
            alike.setdefault((kernel.cost.sharing, kernel.structure.view), []).append(kernel)
    with machine.at_work(device):
        for several in alike.values():
            fitted = [kernel.fit(kernel.structure.read(examples)) for kernel in several]
            wanted = [wanted_of(machine, kernel, examples, device) for kernel in fitted]
            complete_together(machine.compute.store, wanted, memory, progress)


def make_gram(
    machine: Machine,
    kernel: Kernel,
    examples: Any,
    device: Device,
    memory: int | str | None,
    progress: Progress | None,
) -> Gram:
    """The Gram of examples and a fitted kernel, within the memory that rows may take."""
    if machine.compute.store is None and machine.compute.tier in ("auto", "device"):
        sharded = sharded_gram(kernel, examples, device, memory, progress)
        if sharded is not None:
            return sharded
    if machine.compute.tier == "auto" and machine.compute.store is None and _why_not(machine):
        return spread(
            gram_of(kernel.rows(kernel.structure.read(examples), device), memory, progress), device, memory
        )
    asked = Asked(memory, machine.compute.tier, machine.compute.store)
    planned = Planned(wanted_of(machine, kernel, examples, device), asked)
    gram = planned.gram(progress)
    if planned.tier == "recompute" and machine.compute.tier == "auto" and kernel.cost.quadratic:
        gram.description += "; a store (--store DIR) would keep them on disk"
    return spread(gram, device, memory)
