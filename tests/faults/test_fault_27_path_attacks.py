"""Fault 27: paths outside a table. Only registered tables are opened, and each file is below the base path of its
table.

Requests go through a real server; hostile metadata is written to a copy of a real table.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest

from penstock.enumerator.server.run import RunningServer, serve
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import ConfigurationError, CorruptFile, PenstockError, TableNotFound
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.splits import FileRef
from penstock.reader.read_split import read_split
from penstock.table.storage.filesystem import checked_path, open_storage

V6 = "A_merge_event_long_v6_h0150"
ONCE = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=1)
SECRET = "not-for-readers"

ELSEWHERE = (
    "../other",
    "orders/../../etc",
    "/etc/passwd",
    "file:///etc/passwd",
    "s3://other/table",
    "orders\0",
    "orders/",
    "./orders",
    "%2e%2e%2forders",
    "%252e%252e%252fetc",
    "ORDERS",
    "..\\orders",
    "",
)


@pytest.fixture
def server(golden: object, tmp_path: pathlib.Path) -> Iterator[tuple[RunningServer, pathlib.Path]]:
    """A server of one table, `orders`, a copy that the test may damage; and the folder of the table."""
    table = golden.copy(V6, tmp_path)  # type: ignore[attr-defined]
    (tmp_path / "outside.txt").write_text(SECRET)
    with serve({"orders": str(table)}, "127.0.0.1:0") as running:
        yield running, table
        running.stop(0)


@pytest.mark.golden
@pytest.mark.parametrize("name", ELSEWHERE)
def test_only_registered_names_are_opened(server: tuple[RunningServer, pathlib.Path], name: str) -> None:
    client = EnumeratorClient(server[0].address, ONCE)
    for ask in (
        lambda: client.describe_table(name),
        lambda: client.newest_position(name),
        lambda: client.list_instants(name),
        lambda: client.open_plan(PlanRequest(table=name, query=Snapshot())),
    ):
        with pytest.raises((TableNotFound, ConfigurationError)) as caught:
            ask()
        assert "orders" in str(caught.value) or name == ""


@pytest.mark.golden
def test_path_of_a_registered_table_is_not_accepted_as_a_name(server: tuple[RunningServer, pathlib.Path]) -> None:
    with pytest.raises(TableNotFound):
        EnumeratorClient(server[0].address, ONCE).describe_table(str(server[1]))


HOSTILE = (
    "../../outside.txt",
    "../outside.txt",
    "/etc/passwd",
    "a/../../outside.txt",
    "file:///etc/passwd",
    "s3://other/x.parquet",
    "a\0b",
    "a//b",
    "./a",
    "x" * 5000,
)


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_path_is_refused_before_any_file_access(path: str, tmp_path: pathlib.Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (tmp_path / "outside.txt").write_text(SECRET)
    storage = open_storage(str(table))
    for ask in (
        lambda: checked_path(path),
        lambda: storage.read_bytes(path, 100),
        lambda: storage.open_input(path),
        lambda: storage.list_dir(path),
        lambda: storage.file_info(path),
    ):
        with pytest.raises(CorruptFile, match="is refused"):
            ask()


@pytest.mark.parametrize(
    "path", ["%2e%2e/outside.txt", "%252e%252e/outside.txt", "..%2foutside.txt", "%2Fetc%2Fpasswd"]
)
@pytest.mark.parametrize("as_uri", [False, True])
def test_encoded_path_is_never_decoded(path: str, as_uri: bool, tmp_path: pathlib.Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (tmp_path / "outside.txt").write_text(SECRET)
    storage = open_storage(table.as_uri() if as_uri else str(table))
    with pytest.raises(FileNotFoundError):
        storage.read_bytes(path, 100)
    assert storage.file_info(path) is None


def data_commit(table: pathlib.Path) -> pathlib.Path:
    """The newest completed deltacommit of a table of version 6, which is JSON that the test can change."""
    return max((table / ".hoodie").glob("*.deltacommit"))


@pytest.mark.golden
@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "a/../../outside.txt", "file:///etc/passwd", "a\0b"])
@pytest.mark.parametrize("where", ["path", "partitionPath", "both"])
def test_commit_metadata_cannot_lead_out_of_the_table(
    server: tuple[RunningServer, pathlib.Path], path: str, where: str
) -> None:
    """The plan is refused, or contains only paths of the table."""
    running, table = server
    file = data_commit(table)
    commit = json.loads(file.read_text())
    stats = {}
    for partition, partition_stats in commit["partitionToWriteStats"].items():
        for stat in partition_stats:
            if where in ("path", "both"):
                stat["path"] = path
            if where in ("partitionPath", "both"):
                stat["partitionPath"] = path
        stats[path if where != "path" else partition] = partition_stats
    commit["partitionToWriteStats"] = stats
    file.write_text(json.dumps(commit))
    client = EnumeratorClient(running.address, ONCE)
    try:
        opened = client.open_plan(PlanRequest(table="orders", query=Snapshot(), slots=1))
    except PenstockError as error:
        assert SECRET not in str(error)
        assert not isinstance(error, TableNotFound)
        return
    index = 0
    while index < opened.splits:
        split = client.next_split(opened.plan_id, 0, index).split  # type: ignore[union-attr]
        for ref in [*([split.base] if split.base else []), *split.logs]:
            assert checked_path(ref.path) and (table / ref.path).resolve().is_relative_to(table.resolve())
        index += 1


@pytest.mark.golden
@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "file:///etc/passwd", "link.parquet"])
def test_reader_opens_no_file_outside_the_table(golden: object, tmp_path: pathlib.Path, path: str) -> None:
    from dataclasses import replace

    from penstock.enumerator.embedded import EmbeddedEnumerator

    table = golden.copy(V6, tmp_path)  # type: ignore[attr-defined]
    (tmp_path / "outside.txt").write_text(SECRET)
    (table / "link.parquet").symlink_to(tmp_path / "outside.txt")
    plan = EmbeddedEnumerator().plan(PlanRequest(table=str(table), query=Snapshot()))
    split = replace(plan.splits[0], base=FileRef(path, 100), base_instant=plan.splits[0].order_key)
    with pytest.raises(CorruptFile, match="is refused") as caught:
        list(read_split(plan.scan, split))
    assert SECRET not in str(caught.value)


@pytest.mark.golden
def test_links_out_of_the_root_are_refused_and_links_within_are_read(
    server: tuple[RunningServer, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    running, table = server
    client = EnumeratorClient(running.address, ONCE)
    plan = client.open_plan(PlanRequest(table="orders", query=Snapshot(), slots=1))
    split = client.next_split(plan.plan_id, 0, 0).split  # type: ignore[union-attr]
    assert split.base is not None
    file = table / split.base.path
    outside = tmp_path / "moved.parquet"
    file.replace(outside)
    file.symlink_to(outside)
    with pytest.raises(CorruptFile, match="a symbolic link leads out of the base path"):
        list(read_split(plan.scan, split))
    file.unlink()
    inside = table / "kept.parquet"
    outside.replace(inside)
    file.symlink_to(inside)
    assert list(read_split(plan.scan, split))


@pytest.mark.golden
def test_timeline_that_links_outside_the_table_is_refused(
    server: tuple[RunningServer, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    running, table = server
    (table / ".hoodie").replace(tmp_path / "hoodie")
    (table / ".hoodie").symlink_to(tmp_path / "hoodie")
    with pytest.raises(CorruptFile, match="a symbolic link leads out of the base path"):
        EnumeratorClient(running.address, ONCE).describe_table("orders")
