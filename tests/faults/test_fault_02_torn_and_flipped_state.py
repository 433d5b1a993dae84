"""Fault 2: a torn tail of the state's log is dropped in whole transactions; damage in the middle is refused.

The oracle of a torn tail is SQLite's file format: this module parses the WAL frames that end a transaction.
"""

from __future__ import annotations

import pathlib
import re
import struct

import pytest

from penstock.enumerator.store.protocol import PlanPieces, StoredRecord
from penstock.enumerator.store.sqlite.check import check_state
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.errors import StateDamaged, StateVersionError, StorageError
from tests.faults.state_steps import copied, reopened, started

FRAME = 24 + 4096
HEADER = 32


def killed(directory: pathlib.Path, transactions: int, checkpoint: int = -1) -> bytes:
    """Creates the state of a killed process; returns its WAL."""
    with started("transactions", directory, transactions, checkpoint) as process:
        assert process.wait() == -9
    return (directory / "penstock.db-wal").read_bytes()


def commit_ends(wal: bytes) -> list[int]:
    """Offsets at which a transaction of the WAL is complete (the frame's size of the database is not 0)."""
    salts = wal[16:24]
    ends = []
    for at in range(HEADER, len(wal) - FRAME + 1, FRAME):
        size, salt = struct.unpack_from(">I", wal, at + 4)[0], wal[at + 8 : at + 16]
        if salt != salts:
            break
        if size:
            ends.append(at + FRAME)
    return ends


def expected(transactions: int) -> tuple[list[bytes], dict[str, list[bytes]]]:
    """The contents after this number of transactions of `state_process`."""
    payloads = [b"%d %d" % (i, n) + b"." * 500 for i in range(transactions) for n in range(3)]
    pieces = [b"scan", *(b"split %d" % n for n in range(3))]
    return payloads, {f"plan {i}": pieces for i in range(transactions)}


@pytest.mark.parametrize(("transactions", "checkpoint"), [(8, -1), (8, 4)])
def test_fault_02_torn_tail_gives_a_prefix_of_whole_transactions(
    tmp_path: pathlib.Path, transactions: int, checkpoint: int
) -> None:
    wal = killed(tmp_path / "state", transactions, checkpoint)
    ends = commit_ends(wal)
    before = (
        checkpoint + 1 if checkpoint >= 0 else -1
    )  # without a checkpoint the commit of the opening is in the WAL too
    assert len(ends) + before == transactions
    edges = {end + d for end in [0, HEADER, *ends] for d in (-1, 0, 1, 9)}
    offsets = sorted(at for at in edges | set(range(0, len(wal), 997)) if 0 <= at <= len(wal))
    assert len(offsets) > 60
    seen = set()
    for offset in offsets:
        state = copied(tmp_path / "state", tmp_path / "copy")
        with (state / "penstock.db-wal").open("r+b") as stream:
            stream.truncate(offset)
        whole = max(0, sum(end <= offset for end in ends) + before)
        assert reopened(state) == expected(whole), offset
        seen.add(whole)
    assert seen == set(range(max(before, 0), transactions + 1))


def test_fault_02_torn_state_continues(tmp_path: pathlib.Path) -> None:
    wal = killed(tmp_path / "state", 5)
    with (tmp_path / "state" / "penstock.db-wal").open("r+b") as stream:
        stream.truncate(len(wal) - 100)
    store = open_sqlite(tmp_path / "state")
    store.append([StoredRecord("number", 1, b"after")])
    store.close()
    assert reopened(tmp_path / "state")[0] == [*expected(4)[0], b"after"]


@pytest.mark.parametrize("into_frame", [0, 8, 16, 24 + 2000])
def test_fault_02_flip_in_the_middle_of_the_wal_is_refused(tmp_path: pathlib.Path, into_frame: int) -> None:
    wal = killed(tmp_path / "state", 8)
    ends = commit_ends(wal)
    for number, end in enumerate(ends[:-2]):
        state = copied(tmp_path / "state", tmp_path / "copy")
        flip(state / "penstock.db-wal", end + into_frame)
        with pytest.raises(StateDamaged, match=r"penstock\.db-wal"):
            reopened(state)
        assert "penstock.db-wal" in check_state(state).damage, number
    state = copied(tmp_path / "state", tmp_path / "copy")
    flip(state / "penstock.db-wal", ends[-2] + into_frame)
    assert reopened(state) == expected(7)  # a flip in the last transaction cannot be distinguished from a torn write


def test_fault_02_flip_in_the_header_of_the_wal_is_refused(tmp_path: pathlib.Path) -> None:
    killed(tmp_path / "state", 3)
    for offset in range(HEADER):
        state = copied(tmp_path / "state", tmp_path / "copy")
        flip(state / "penstock.db-wal", offset)
        with pytest.raises(StateDamaged, match=r"penstock\.db-wal"):
            reopened(state)


def flip(path: pathlib.Path, offset: int, mask: int = 0x10) -> None:
    """Flips bits of one byte."""
    with path.open("r+b") as stream:
        stream.seek(offset)
        byte = stream.read(1)[0]
        stream.seek(offset)
        stream.write(bytes([byte ^ mask]))


def stopped_state(directory: pathlib.Path) -> tuple[list[bytes], dict[str, list[bytes]]]:
    """The state of a stopped process, completely in the database; returns its contents."""
    store = open_sqlite(directory)
    for i in range(12):
        pieces = PlanPieces(f"plan {i}", b"scan" * 50, tuple(b"split %d" % n * 20 for n in range(3)))
        store.append([StoredRecord("number", 1, b"%d" % i + b"." * 400)], [pieces])
    store.append([], [], ["plan 3"])
    store.close()
    assert not (directory / "penstock.db-wal").exists()
    return reopened(directory)


@pytest.mark.exhaustive
def test_fault_02_flipped_bit_in_the_database_never_gives_other_content(tmp_path: pathlib.Path) -> None:
    whole = stopped_state(tmp_path / "state")
    size = (tmp_path / "state" / "penstock.db").stat().st_size
    refused = 0
    header = range(100)
    offsets = [*header, *range(100, size, 151)]
    for number, offset in enumerate(offsets):
        state = copied(tmp_path / "state", tmp_path / "copy")
        flip(state / "penstock.db", offset, 1 << number % 8)
        report_damage = ""
        try:
            report_damage = check_state(state).damage
        except StateVersionError:
            report_damage = "version"
        try:
            assert reopened(state) == whole, offset
        except (StateDamaged, StateVersionError) as error:
            refused += 1
            assert str(state) in str(error) and report_damage, (offset, error)
        except StorageError:
            assert offset == 18, offset  # the version for writers: SQLite correctly refuses to write
    assert refused > len(offsets) / 4


def test_fault_02_damage_names_the_record_and_what_to_do(tmp_path: pathlib.Path) -> None:
    stopped_state(tmp_path / "state")
    database = tmp_path / "state" / "penstock.db"
    for match in re.finditer(rb"7\.{400}", database.read_bytes()):  # pages keep their old content
        flip(database, match.start() + 5)
    before = database.read_bytes()
    with pytest.raises(StateDamaged, match=r"penstock\.db is damaged: record 8: its checksum") as caught:
        open_sqlite(tmp_path / "state")
    for hint in ("penstock state check", "backup", "reset the consumer groups"):
        assert hint in str(caught.value)
    assert database.read_bytes() == before  # the epoch is unchanged


@pytest.mark.parametrize("share", [0, 0.3, 0.7])
def test_fault_02_database_cut_short_is_refused(tmp_path: pathlib.Path, share: float) -> None:
    stopped_state(tmp_path / "state")
    database = tmp_path / "state" / "penstock.db"
    data = database.read_bytes()
    database.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(StateDamaged):
        reopened(tmp_path / "state")
    assert check_state(tmp_path / "state").damage


def test_fault_02_missing_database_beside_its_wal_is_refused(tmp_path: pathlib.Path) -> None:
    killed(tmp_path / "state", 2)
    (tmp_path / "state" / "penstock.db").unlink()
    with pytest.raises(StateDamaged, match="missing"):
        open_sqlite(tmp_path / "state")
