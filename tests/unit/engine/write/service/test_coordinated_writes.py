"""Writes of one table that a server coordinates, on real files: leases, epochs, aborts, expiry, crashes."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from datetime import UTC

import pytest

import penstock
from penstock.engine.write.service.remote_transaction import remote_transaction
from penstock.engine.write.service.served_timeline import ServedTimeline, compressed
from penstock.engine.write.write import write
from penstock.enumerator.core.writes.decide import WriteLimits
from penstock.proto.errors import ConfigurationError, CorruptFile, Fenced, StorageError, TableError, WriteConflict
from penstock.proto.model.writes import (
    NO_PROGRESS,
    TouchedGroups,
    WriteCommit,
    WriteId,
    WriteSpec,
    WriteState,
)
from penstock.table.config.properties import load_properties
from penstock.table.files.markers import IoType
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import open_writable
from penstock.writer.transaction.attempt_files import AttemptFiles, open_for_attempts
from penstock.writer.transaction.transaction import WriteEnvironment
from tests.unit.engine.write.service.coordinated import (
    Coordinated,
    Killed,
    KilledTimeline,
    coordinated,
    data_files,
    ids,
    rows,
)

LEASE_MS = WriteLimits().lease_ms


@pytest.fixture(params=["merge_on_read", "copy_on_write"])
def server(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Coordinated]:
    with coordinated(tmp_path, request.param) as one:
        yield one


@pytest.fixture
def one_kind(tmp_path: pathlib.Path) -> Iterator[Coordinated]:
    with coordinated(tmp_path) as one:
        yield one


def pending(path: pathlib.Path) -> list[str]:
    """The instants that are not complete."""
    storage = open_writable(str(path))
    return [item.requested_time for item in HudiTable(storage, load_properties(storage)).timeline().pending]


class TestTwoWriters:
    def test_both_complete_on_different_file_groups(self, server: Coordinated) -> None:
        first = server.write(rows("a", "oslo"), before=lambda: server.write(rows("b", "riga")))
        assert ids(server.path) == [(f"{name}{n}", 1) for name in "ab" for n in range(3)]
        assert first.completion_time
        assert not server.writes.list_writes()
        assert not pending(server.path)

    def test_second_one_is_told_before_it_writes_files(self, server: Coordinated) -> None:
        seen: list[object] = []

        def second() -> None:
            before = data_files(server.path)
            (first,) = server.writes.list_writes()
            with pytest.raises(WriteConflict) as caught:
                server.write(rows("b", "oslo"), after=lambda: seen.append("files were written"))
            assert f"(instant {first.instant}), holds bucket" in str(caught.value)
            assert data_files(server.path) == before, "nothing of the second write is left"

        server.write(rows("a", "oslo"), after=second)
        assert not seen
        assert ids(server.path) == [(f"a{n}", 1) for n in range(3)]
        server.write(rows("a", "oslo", seq=2))
        assert ids(server.path) == [(f"a{n}", 2) for n in range(3)]

    def test_write_that_began_before_the_first_was_complete_is_told_early(self, one_kind: Coordinated) -> None:
        def first() -> None:
            one_kind.write(rows("a", "oslo"))

        with pytest.raises(
            WriteConflict, match="changed bucket 00000000 of partition 'oslo' after this write had begun"
        ):
            one_kind.write(rows("b", "oslo"), before=first)
        assert ids(one_kind.path) == [(f"a{n}", 1) for n in range(3)]
        assert not pending(one_kind.path)

    def test_inserts_into_one_partition_conflict_without_buckets(self, tmp_path: pathlib.Path) -> None:
        with coordinated(tmp_path, "copy_on_write", index="simple") as server:

            def second() -> None:
                with pytest.raises(WriteConflict, match="holds inserts into partition 'oslo'"):
                    server.write(rows("b", "oslo"))
                server.write(rows("c", "riga"))

            server.write(rows("a", "oslo"), after=second)
            assert [key for key, _ in ids(server.path)] == ["a0", "a1", "a2", "c0", "c1", "c2"]

    def test_overwrite_holds_what_it_replaces(self, one_kind: Coordinated) -> None:
        one_kind.write(rows("a", "oslo"))

        def second() -> None:
            with pytest.raises(WriteConflict, match="holds bucket 00000000"):
                one_kind.write(rows("a", "oslo", seq=5))

        one_kind.write(rows("b", "oslo"), "insert_overwrite", before=second)
        assert [key for key, _ in ids(one_kind.path)] == ["b0", "b1", "b2"]

    def test_writer_without_the_server_is_noticed_at_the_commit(self, one_kind: Coordinated) -> None:
        def other() -> None:
            write(str(one_kind.path), rows("b", "oslo"))

        with pytest.raises(WriteConflict, match="of another writer changes bucket"):
            one_kind.write(rows("a", "oslo"), after=other)
        assert ids(one_kind.path) == [(f"b{n}", 1) for n in range(3)]
        assert not pending(one_kind.path)
        assert not one_kind.writes.list_writes()


class TestEnds:
    def test_error_of_a_writer_rolls_its_instant_back(self, server: Coordinated) -> None:
        def fails() -> None:
            raise RuntimeError("out of luck")

        with pytest.raises(RuntimeError):
            server.write(rows("a", "oslo"), after=fails)
        assert not pending(server.path)
        assert not [name for name in data_files(server.path) if "hoodie_partition_metadata" not in name]
        assert not server.writes.list_writes()

    def test_lease_that_ends_rolls_back_and_fences(self, one_kind: Coordinated) -> None:
        def away() -> None:
            one_kind.pass_ms(2 * LEASE_MS)
            assert not pending(one_kind.path)

        with pytest.raises(Fenced, match="its lease ended"):
            one_kind.write(rows("a", "oslo"), after=away)
        assert ids(one_kind.path) == []
        one_kind.write(rows("b", "oslo"))

    def test_late_files_of_a_fenced_writer_are_removed(self, one_kind: Coordinated) -> None:
        """Its markers were removed when it was rolled back."""
        with pytest.raises(Fenced):
            one_kind.write(rows("a", "oslo"), before=lambda: one_kind.pass_ms(2 * LEASE_MS))
        one_kind.write(rows("b", "oslo"))
        assert [key for key, _ in ids(one_kind.path)] == ["b0", "b1", "b2"]

    def test_later_epoch_fences_the_earlier_one(self, one_kind: Coordinated) -> None:
        def later() -> None:
            one_kind.write(rows("b", "oslo"), owner="stream", epoch=3)

        with pytest.raises(Fenced, match="a later epoch of its owner began"):
            one_kind.write(rows("a", "oslo"), owner="stream", epoch=1, after=later)
        assert [key for key, _ in ids(one_kind.path)] == ["b0", "b1", "b2"]
        with pytest.raises(Fenced, match="epoch 3 of this owner has begun"):
            one_kind.write(rows("a", "oslo"), owner="stream", epoch=2)

    def test_heartbeats_of_open_writes_are_renewed(self, one_kind: Coordinated) -> None:
        def beats() -> None:
            (heartbeat,) = (one_kind.path / ".hoodie" / ".heartbeat").iterdir()
            old_ns = heartbeat.stat().st_mtime_ns - 10**11
            os.utime(heartbeat, ns=(old_ns, old_ns))
            one_kind.pass_ms(30_000)
            assert heartbeat.stat().st_mtime_ns > old_ns + 9 * 10**10

        one_kind.write(rows("a", "oslo"), after=beats)


def test_files_of_tasks_are_reported_by_their_markers(one_kind: Coordinated) -> None:
    """As tasks of Spark create them, in other processes than the one of the transaction."""
    server, path = one_kind.server(), one_kind.path
    storage = open_writable(str(path))
    table = HudiTable(storage, load_properties(storage))
    spec, environment = WriteSpec(action="deltacommit"), WriteEnvironment(zone=UTC)
    with remote_transaction(server, "t", table, storage, environment, spec) as transaction:
        assert transaction.files_begun() == 0
        files = AttemptFiles(table, storage, transaction.requested_time)
        with open_for_attempts(storage, transaction.requested_time):
            for number in range(2):
                with files.data_file("oslo", f"f{number}-0_0-0-0_{transaction.requested_time}.parquet", IoType.CREATE):
                    assert transaction.files_begun() == number + 1


class TestCrashes:
    @pytest.mark.parametrize("at", ["before", "after"])
    def test_decided_commit_is_completed_once_after_a_restart(
        self, server: Coordinated, at: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.timelines = KilledTimeline
        server.restart()
        monkeypatch.setattr(KilledTimeline, "at", at)
        with pytest.raises(Killed):
            server.write(rows("a", "oslo"))
        # `_abort` of the client's transaction was refused: its commit is decided
        assert bool(pending(server.path)) == (at == "before")
        monkeypatch.setattr(KilledTimeline, "at", "")
        server.restart()
        assert ids(server.path) == [(f"a{n}", 1) for n in range(3)]
        assert not server.writes.list_writes()
        assert len(completed(server.path)) == 1
        server.write(rows("a", "oslo", seq=2))

    def test_open_write_goes_on_after_a_restart(self, server: Coordinated) -> None:
        server.write(rows("a", "oslo"))
        this = WriteId("t", "b", 1)
        begun = server.writes.begin_write(this, "r", WriteSpec(action="commit"))
        server.restart()
        again = server.writes.begin_write(this, "r", WriteSpec(action="commit"))
        assert again == begun, "a repeated begin has the same answer, also after a restart"
        server.writes.renew_write(this, NO_PROGRESS)
        server.writes.abort_write(this)
        assert not pending(server.path)

    def test_killed_server_is_not_rolled_back_by_the_next_one(self, one_kind: Coordinated) -> None:
        this = WriteId("t", "a", 1)
        begun = one_kind.writes.begin_write(this, "r", WriteSpec(action="deltacommit"))
        heartbeat = one_kind.path / ".hoodie" / ".heartbeat" / begun.instant
        before = heartbeat.read_bytes()
        one_kind.restart()
        assert heartbeat.read_bytes() != before, "the heartbeat is that of the new process"
        one_kind.write(rows("b", "oslo"))  # rolls back what killed writers left
        assert begun.instant in pending(one_kind.path)
        one_kind.writes.abort_write(this)

    def test_repeated_commit_has_the_same_answer(self, one_kind: Coordinated) -> None:
        one_kind.write(rows("a", "oslo"), owner="w")
        this = WriteId("t", "w", 1)
        commit = WriteCommit(metadata=b"", touched=TouchedGroups(), writes_base_files=False)
        first = one_kind.writes.commit_write(this, commit)
        one_kind.restart()
        assert one_kind.writes.commit_write(this, commit) == first
        with pytest.raises(Fenced, match="its commit is completed"):
            one_kind.writes.abort_write(this)

    def test_storage_that_fails_leaves_the_commit_decided(
        self, one_kind: Coordinated, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(self: ServedTimeline, *arguments: object) -> None:
            raise StorageError("the disk is away")

        with monkeypatch.context() as patched:
            patched.setattr(ServedTimeline, "complete", away)
            with pytest.raises(StorageError, match="it may be complete, or will be, or not"):
                one_kind.write(rows("a", "oslo"), owner="w")
            (write_left,) = one_kind.writes.list_writes()
            assert write_left.state is WriteState.DECIDED
        one_kind.writes.tick()
        assert ids(one_kind.path) == [(f"a{n}", 1) for n in range(3)]


class TestBadCommits:
    @pytest.mark.parametrize("metadata", [b"x", compressed(b"{}"), compressed(b"{}")[:-1]])
    def test_metadata_that_is_none_is_refused(self, one_kind: Coordinated, metadata: bytes) -> None:
        this = WriteId("t", "a", 1)
        one_kind.writes.begin_write(this, "r", WriteSpec(action="deltacommit"))
        commit = WriteCommit(metadata=metadata, touched=TouchedGroups(), writes_base_files=False)
        with pytest.raises(CorruptFile, match=r"commit metadata|partitionToWriteStats"):
            one_kind.writes.commit_write(this, commit)
        assert not pending(one_kind.path)

    def test_metadata_with_other_groups_than_the_leases_is_refused(self, one_kind: Coordinated) -> None:
        this = WriteId("t", "a", 1)
        one_kind.writes.begin_write(this, "r", WriteSpec(action="deltacommit"))
        stats = '{"partitionToWriteStats": {"p": [{"fileId": "f", "path": "p/f"}]}}'
        commit = WriteCommit(metadata=compressed(stats.encode()), touched=TouchedGroups(), writes_base_files=False)
        with pytest.raises(TableError, match="has file group"):
            one_kind.writes.commit_write(this, commit)
        assert not pending(one_kind.path)

    def test_options_that_exclude_a_server(self, one_kind: Coordinated) -> None:
        with pytest.raises(ConfigurationError, match="compact_after"):
            penstock.write("t", rows("a", "oslo"), compact_after=1, server="127.0.0.1:1")
        with pytest.raises(ConfigurationError, match="without a server"):
            penstock.write(str(one_kind.path), rows("a", "oslo"), server_options={"serverCa": "ca.pem"})
        with pytest.raises(ConfigurationError, match="sole_writer"):
            write("t", rows("a", "oslo"), sole_writer=True, server=one_kind.server())

    def test_changed_table_is_noticed(self, one_kind: Coordinated) -> None:
        properties = one_kind.path / ".hoodie" / "hoodie.properties"

        def change() -> None:
            properties.write_text(properties.read_text().replace("hoodie.table.cdc.enabled=false", ""))
            with properties.open("a") as file:
                file.write("hoodie.datasource.write.hive_style_partitioning=true\n")

        with pytest.raises(TableError, match="changed during this write"):
            one_kind.write(rows("a", "oslo"), after=change)


def completed(path: pathlib.Path) -> list[str]:
    """The completed writes."""
    storage = open_writable(str(path))
    timeline = HudiTable(storage, load_properties(storage)).timeline()
    return [item.requested_time for item in timeline.completed_writes]
