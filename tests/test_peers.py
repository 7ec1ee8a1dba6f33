"""Cards that read each other's memory, with a runtime that only says what it was asked."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from textsvm.errors import InputError
from textsvm.gram.cards import enable_peers
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device

CARDS = [Device("cuda", index, f"cuda:{index}") for index in (0, 2, 3)]


class RuntimeFailure(Exception):
    """As CuPy's, with the number of the error."""

    status = 704  # cudaErrorPeerAccessAlreadyEnabled


@pytest.fixture
def runtime(monkeypatch):
    """Where every pair may be enabled once."""
    made = SimpleNamespace(CUDARuntimeError=RuntimeFailure, enabled=[], current=None, apart=set())

    def card(index):
        made.current = index
        return nullcontext()

    def enable(other):
        if (made.current, other) in made.enabled:
            raise RuntimeFailure("peer access is already enabled")
        made.enabled.append((made.current, other))

    made.deviceEnablePeerAccess = enable
    made.deviceCanAccessPeer = lambda one, other: (one, other) not in made.apart
    unused = SimpleNamespace(CUDADriverError=OSError), SimpleNamespace(OutOfMemoryError=MemoryError)
    cuda = SimpleNamespace(runtime=made, Device=card, driver=unused[0], memory=unused[1])
    monkeypatch.setattr(devices, "cupy", lambda: SimpleNamespace(cuda=cuda))
    devices.unconnected.cache_clear()
    yield made
    devices.unconnected.cache_clear()


def test_all_pairs_are_enabled_once_however_often_asked(runtime):
    enable_peers(CARDS[:2])
    enable_peers([*CARDS, CARDS[0]])
    pairs = [(one.index, other.index) for one in CARDS for other in CARDS if one != other]
    assert sorted(runtime.enabled) == pairs


def test_one_card_is_its_own_peer(runtime):
    enable_peers([CARDS[0], CARDS[0]])
    assert not runtime.enabled


def test_cards_that_cannot_are_named(runtime):
    runtime.apart.add((2, 3))
    with pytest.raises(InputError, match="GPU 2 does not reach the memory of GPU 3"):
        enable_peers(CARDS)


def test_another_failure_is_not_taken_for_this_one(runtime, monkeypatch):
    monkeypatch.setattr(RuntimeFailure, "status", 700)
    enable_peers(CARDS[:2])
    with pytest.raises(InputError, match="already enabled"):
        enable_peers(CARDS)
