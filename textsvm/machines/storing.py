"""Check the parameters `store` and `tier`, and build the Gram of a machine's examples."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.gram.build import build_gram
from textsvm.gram.cards import sharded_gram, spread
from textsvm.gram.measure import allowed_bytes
from textsvm.gram.plan import TIERS
from textsvm.gram.store import GramRequest, Store
from textsvm.gram.stored import complete_together
from textsvm.kernels.base import Kernel
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress

#: A `textsvm.machines.base.KernelMachine`, which imports this module.
Machine = Any


def check_store(machine: Machine) -> None:
    """Raise InputError if `store` or `tier` is invalid, or the machine has no kernel matrix to store."""
    check_tier(machine)
    if machine.compute_options.store is None:
        return
    if not isinstance(machine.compute_options.store, str | os.PathLike) or not str(
        machine.compute_options.store
    ):
        raise InputError(f"store must be the name of a folder, got {machine.compute_options.store!r}")
    if trouble := _why_not(machine):
        raise InputError(f"{trouble}; leave store out (--store)")
    Store(machine.compute_options.store)


def check_tier(machine: Machine) -> None:
    """Raise InputError if `tier` is invalid, or the machine has no kernel matrix for it."""
    tier = machine.compute_options.tier
    if not isinstance(tier, str) or tier not in TIERS:
        raise InputError(f"tier must be one of {', '.join(TIERS)}, got {tier!r}")
    if tier == "auto":
        return
    if trouble := _why_not(machine) if tier in ("host", "disk") else _no_matrix(machine):
        raise InputError(f"{trouble}; leave tier out (--tier)")
    if tier == "disk" and machine.compute_options.store is None:
        raise InputError('tier="disk" needs a folder to keep the kernel matrix in: name one (store, --store)')
    if tier == "recompute" and machine.compute_options.store is not None:
        raise InputError('tier="recompute" computes rows again and reads no store; leave one of the two out')


def without_store(machine: Machine) -> Machine:
    """A clone of a machine for other examples than those in its store."""
    tier = "auto" if machine.compute_options.tier == "disk" else machine.compute_options.tier
    return machine.copy().set_params(compute__store=None, compute__tier=tier)


def _no_matrix(machine: Machine) -> str:
    """Why a machine has no kernel matrix of its own; empty if it has one."""
    kernel, solver, approximate = (
        machine.kernel,
        machine.compute_options.solver,
        machine.compute_options.approximate,
    )
    if isinstance(kernel, str) and kernel == "precomputed":
        return "a kernel matrix that is given is not stored again"
    if isinstance(kernel, str) and kernel == "auto":
        return 'kernel="auto" has no kernel matrix of all texts to store, as a named kernel has'
    if approximate is not None:
        return "machines on landmarks have a few values per text, and no kernel matrix to store"
    if isinstance(solver, str) and solver == "features":
        return 'with solver="features" there is no kernel matrix to store'
    return ""


def _why_not(machine: Machine) -> str:
    """Why rows of a machine cannot be computed elsewhere, or identified again; empty if they can."""
    if trouble := _no_matrix(machine):
        return trouble
    kernel = machine.make_kernel()
    if not kernel.structure.comparable or any(callable(view.tokens) for view in kernel.structure.views):
        return "a function has no parameters that identify a stored kernel matrix"
    return ""


def gram_request(machine: Machine, kernel: Kernel, examples: Any, device: Device) -> GramRequest:
    """The Gram of a fitted kernel, as a store identifies it."""
    form = machine.source.form
    parameters = asdict(form) if is_dataclass(form) else {}  # type: ignore[arg-type]
    return GramRequest(kernel, examples, parameters, device)


def store_together(
    machine: Machine, kernels: Sequence[Kernel], examples: Any, device: Device, progress: Progress | None
) -> None:
    """Compute missing Grams in the store together, for kernels that share a pass; skip the others."""
    memory = allowed_bytes(
        machine.source.memory(machine.compute_options.memory, len(examples), device), device
    )
    alike: dict[Hashable, list[Kernel]] = {}
    for kernel in kernels:
        if kernel.cost.sharing is not None and not kernel.structure.learns:
            alike.setdefault((kernel.cost.sharing, kernel.structure.view), []).append(kernel)
    with machine.at_work(device):
        for several in alike.values():
            fitted = [kernel.fit(kernel.structure.read(examples)) for kernel in several]
            requests = [gram_request(machine, kernel, examples, device) for kernel in fitted]
            complete_together(machine.compute_options.store, requests, memory, progress)


def make_gram(
    machine: Machine,
    kernel: Kernel,
    examples: Any,
    device: Device,
    memory: int | str | None,
    progress: Progress | None,
) -> Gram:
    """The Gram of examples and a fitted kernel, with `memory` bytes for its rows."""
    store, tier = machine.compute_options.store, machine.compute_options.tier
    if store is None and tier in ("auto", "device"):
        sharded = sharded_gram(kernel, examples, device, memory, progress)
        if sharded is not None:
            return sharded
    request = gram_request(machine, kernel, examples, device)
    movable = not (tier == "auto" and store is None and _why_not(machine))
    return spread(build_gram(request, memory, tier, store, progress, movable), device, memory)
