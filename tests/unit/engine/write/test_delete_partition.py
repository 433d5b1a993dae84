"""Operation delete_partition: a replacecommit without files hides the partitions of the rows."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

import penstock
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.table.timeline.instants import Action
from tests.unit.engine.write.recorded_storage import FIRST, KINDS, SECOND, Kind, Lake, Row, upserted


def cities(*names: str | None) -> pa.Table:
    return pa.table({"city": pa.array(names, pa.string())})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
def test_partition_is_deleted_and_written_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    assert penstock.write(str(lake.path), cities("oslo"), "delete_partition").instant == ""
    first = lake.write(FIRST).instant
    files = lake.files()
    result = penstock.write(str(lake.path), cities("oslo", "unknown", "oslo"), "delete_partition")
    assert (result.partitions, result.rows, result.files) == (("oslo",), 0, 0)
    assert lake.files() == files
    left = [row for row in FIRST if row[2] != "oslo"]
    assert lake.rows() == sorted(left)
    table = lake.table()
    instant = table.timeline().completed_write(result.instant)
    assert instant is not None and instant.action is Action.REPLACE_COMMIT
    commit = table.commit(instant)
    assert (commit.operation, commit.stats) == ("DELETE_PARTITION", ())
    assert {partition for partition, _ in commit.replaced} == {"oslo"}
    then = penstock.read(str(lake.path), as_of=first).read_all()
    assert then.num_rows == len(FIRST)
    lake.write(SECOND)
    assert lake.rows() == upserted(left, SECOND)
    everything = penstock.write(str(lake.path), cities("oslo", "riga", "bern"), "delete_partition")
    assert everything.partitions == ("bern", "oslo", "riga")
    assert lake.rows() == []


def test_what_names_no_partition_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path / "t", KINDS[0], monkeypatch)
    lake.write(FIRST)
    before = lake.everything()
    with pytest.raises(SchemaMismatch, match="lacks column 'city'"):
        penstock.write(str(lake.path), pa.table({"id": ["k1"]}), "delete_partition")
    assert penstock.write(str(lake.path), cities(), "delete_partition").instant == ""
    assert lake.everything() == before
    plain = Lake(tmp_path / "plain", KINDS[0], monkeypatch, partition_by=())
    plain.write(FIRST)
    with pytest.raises(ConfigurationError, match="has no partitions"):
        penstock.write(str(plain.path), cities("oslo"), "delete_partition")


def test_partition_below_another_or_a_former_one_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers do not look for partitions below a folder with a partition's metadata, which stays after a deletion."""
    lake = Lake(tmp_path / "t", KINDS[1], monkeypatch)
    with pytest.raises(SchemaMismatch, match="partition 'oslo/east' would be below partition 'oslo'"):
        lake.write([("k1", 1, "oslo"), ("k2", 1, "oslo/east")])
    rows: list[Row] = [("k1", 1, "oslo"), ("k2", 1, "riga/east")]
    lake.write(rows)
    before = lake.everything()
    for city, below, above in (("oslo/east", "oslo/east", "oslo"), ("riga", "riga/east", "riga")):
        with pytest.raises(SchemaMismatch, match=f"partition '{below}' would be below partition '{above}'"):
            lake.write([("k3", 1, city)])
    assert lake.everything() == before
    lake.write([("k3", 1, "riga/west")])
    penstock.write(str(lake.path), cities("oslo"), "delete_partition")
    with pytest.raises(SchemaMismatch, match="partition 'oslo/east' would be below partition 'oslo'"):
        lake.write([("k3", 1, "oslo/east")])
    assert lake.rows() == [("k2", 1, "riga/east"), ("k3", 1, "riga/west")]
