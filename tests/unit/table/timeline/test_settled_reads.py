"""Files whose names exist before their bytes."""

from __future__ import annotations

import pytest

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.settled_reads import FRESH_NS, read_when_complete

NOW_NS = 10**18


@pytest.fixture(autouse=True)
def nobody_writes() -> None:
    """In this module a file is being written."""


class Written:
    """A file that is complete from its `complete_at`th read on. Only `sleep` advances the clock."""

    def __init__(self, complete_at: int, changed_ns: int | None) -> None:
        self.reads, self.complete_at, self.changed_ns = 0, complete_at, changed_ns
        self.now_ns = NOW_NS

    def read(self) -> bytes:
        self.reads += 1
        return b"whole" if self.reads >= self.complete_at else b""

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def settled(self) -> str:
        return read_when_complete(
            self.read, parsed, lambda: self.changed_ns, sleep=self.sleep, wall_ns=lambda: self.now_ns
        )


def parsed(data: bytes) -> str:
    if not data:
        raise CorruptFile("empty")
    return data.decode()


def test_whole_file_is_read_once() -> None:
    written = Written(1, NOW_NS)
    assert (written.settled(), written.reads, written.now_ns) == ("whole", 1, NOW_NS)


@pytest.mark.parametrize("complete_at", [2, 5, 8])
def test_late_bytes_are_awaited(complete_at: int) -> None:
    assert Written(complete_at, NOW_NS).settled() == "whole"


def test_wait_is_bounded() -> None:
    written = Written(10**6, NOW_NS)
    with pytest.raises(CorruptFile):
        written.settled()
    assert 10**9 < written.now_ns - NOW_NS < 2 * 10**9


@pytest.mark.parametrize("changed_ns", [NOW_NS - FRESH_NS - 1, NOW_NS + FRESH_NS + 1, 0, None])
def test_old_file_is_read_twice_without_a_delay(changed_ns: int | None) -> None:
    written = Written(3, changed_ns)
    with pytest.raises(CorruptFile):
        written.settled()
    assert (written.reads, written.now_ns) == (2, NOW_NS)
