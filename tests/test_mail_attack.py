"""A short run of `mail_attack`, with bounds that hold on a busy machine; the program prints the figures."""

import sys

import mail_attack
import pytest

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and Unix sockets"),
    pytest.mark.slow,
]


def test_hostile_clients_stall_nobody():
    _, p99, failed, _, most = mail_attack.main(5)
    assert failed == []
    assert p99 < 2000
    assert most < 300
