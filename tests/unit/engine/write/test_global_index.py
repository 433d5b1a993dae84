"""Global indexes: a key is unique in the table, and its row moves between partitions in one instant."""

from __future__ import annotations

import pathlib
import random
import shutil
from collections.abc import Sequence

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write import incoming_rows
from penstock.proto.errors import ConfigurationError
from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process
from tests.unit.engine.write.recorded_storage import Kind, Lake, Row, arrow, rows_of

GLOBAL: tuple[Kind, ...] = (
    (9, "merge_on_read", "global_bloom"),
    (9, "copy_on_write", "global_simple"),
    (6, "merge_on_read", "global_simple"),
    (6, "copy_on_write", "global_bloom"),
)
each_kind = pytest.mark.parametrize("kind", GLOBAL, ids=lambda kind: "-".join(map(str, kind)))
STORED: list[Row] = [("a", 10, "oslo"), ("b", 10, "oslo"), ("c", 10, "riga"), ("d", 10, "riga")]


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Lake:
    """A table with rows in two partitions."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(STORED)
    return lake


def paths(lake: Lake) -> dict[str, str]:
    """Key -> partition path in the meta columns. A key is there once."""
    rows = penstock.read(str(lake.path)).read_all().to_pylist()
    found = {row["_hoodie_record_key"]: row["_hoodie_partition_path"] for row in rows}
    assert len(found) == len(rows)
    return found


@each_kind
def test_row_moves_to_another_partition_in_one_instant(lake: Lake) -> None:
    written = lake.write([("a", 20, "riga"), ("c", 20, "bern"), ("d", 20, "riga"), ("e", 1, "oslo")])
    assert lake.rows() == [
        ("a", 20, "riga"),
        ("b", 10, "oslo"),
        ("c", 20, "bern"),
        ("d", 20, "riga"),
        ("e", 1, "oslo"),
    ]
    assert paths(lake) == {"a": "riga", "b": "oslo", "c": "bern", "d": "riga", "e": "oslo"}
    assert (written.rows, written.inserted, written.updated, written.deleted) == (4, 3, 1, 2)
    assert len(lake.table().timeline().completed_writes) == 2
    back = lake.write([("a", 30, "oslo"), ("c", 30, "riga")])
    assert paths(lake) == {"a": "oslo", "b": "oslo", "c": "riga", "d": "riga", "e": "oslo"}
    assert (back.inserted, back.deleted) == (2, 2)


@each_kind
def test_row_moves_only_if_it_wins(lake: Lake) -> None:
    lake.write([("a", 9, "riga"), ("b", 10, "riga"), ("c", 9, "riga")])
    assert lake.rows() == [("a", 10, "oslo"), ("b", 10, "riga"), ("c", 10, "riga"), ("d", 10, "riga")]


@pytest.mark.parametrize("kind", GLOBAL[:2])
def test_newer_row_always_moves_without_ordering(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch, ordering=())
    lake.write(STORED)
    lake.write([("a", 1, "riga"), ("a", 0, "bern")])
    assert lake.rows() == [("a", 0, "bern"), *STORED[1:]]


@each_kind
def test_deletes_find_their_key_in_any_partition(lake: Lake) -> None:
    lake.write([("a", 0, "riga"), ("unknown", 0, "riga")], "delete")
    assert lake.rows() == STORED[1:]
    lake.write([("b", 20, "riga"), ("c", 9, "bern"), ("x", 20, "bern")], deleted=["b", "c", "x"])
    assert lake.rows() == STORED[2:], "that of c is older than the row"
    assert not (lake.path / "bern").exists()
    penstock.write(str(lake.path), pa.table({"id": ["d"]}), "delete")
    assert lake.rows() == STORED[2:3], "a delete needs the key only"


@each_kind
def test_row_of_deleted_key_is_new(lake: Lake) -> None:
    """Its ordering value is compared with nothing: in logs, the row beneath the delete would win over it."""
    lake.write([("a", 0, "oslo")], "delete")
    lake.write([("a", 5, "oslo")])
    assert lake.rows() == [("a", 5, "oslo"), *STORED[1:]]
    lake.write([("a", 6, "riga")])
    lake.write([("a", 7, "oslo")])
    assert lake.rows() == [("a", 7, "oslo"), *STORED[1:]]


@each_kind
def test_rows_stay_where_their_key_is_without_moves(lake: Lake) -> None:
    lake.write([("a", 20, "riga"), ("c", 9, "oslo"), ("e", 1, "bern")], update_partition_path=False)
    assert lake.rows() == [("a", 20, "oslo"), *STORED[1:], ("e", 1, "bern")], "readers return the value of the path"
    assert paths(lake) == {"a": "oslo", "b": "oslo", "c": "riga", "d": "riga", "e": "bern"}


@each_kind
def test_key_that_an_insert_repeated_is_repaired(lake: Lake) -> None:
    lake.write([("a", 10, "riga"), ("b", 15, "riga")], "insert")
    lake.write([("a", 20, "riga"), ("b", 20, "bern")])
    assert lake.rows() == [("a", 20, "riga"), ("b", 20, "bern"), *STORED[2:]]


@pytest.mark.parametrize("kind", GLOBAL[:1])
def test_option_needs_a_global_index(lake: Lake, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Lake(tmp_path / "other", (9, "merge_on_read", "bloom"), monkeypatch)
    with pytest.raises(ConfigurationError, match="update_partition_path=False with index 'bloom': only a global index"):
        other.write(STORED, update_partition_path=False)


def expected(model: dict[str, Row], rows: Sequence[Row], operation: str, deleted: set[str]) -> dict[str, Row]:
    """The slow model: row by row, the later of equals wins."""
    combined: dict[str, Row] = {}
    for row in rows:
        if row[0] not in combined or operation == "delete" or combined[row[0]][1] <= row[1]:
            combined[row[0]] = row
    result = dict(model)
    for key, row in combined.items():
        if operation != "delete" and key in model and model[key][1] > row[1]:
            continue
        result.pop(key, None)
        if operation != "delete" and key not in deleted:
            result[key] = row
    return result


@each_kind
@pytest.mark.parametrize("held_bytes", [64 << 20, 300], ids=["held", "spilled"])
@pytest.mark.sampled(3)
def test_random_writes_are_those_of_a_dictionary(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, held_bytes: int
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    monkeypatch.setattr(incoming_rows, "HELD_BYTES", held_bytes)
    draw, model = random.Random(f"{kind}"), dict[str, Row]()
    for step in range(6):
        keys = draw.choices(range(25), k=14)
        rows: list[Row] = [
            (f"k{key}", step * 10 - draw.choice((0, 0, 25)), draw.choice(("oslo", "riga", "bern"))) for key in keys
        ]
        operation = "delete" if step == 4 else "upsert"
        deleted = {rows[0][0]} if step % 2 else set()
        lake.write(rows, operation, deleted=sorted(deleted))
        model = expected(model, rows, operation, deleted)
        assert lake.rows() == sorted(model.values()), step
        paths(lake)


@pytest.mark.parametrize("kind", GLOBAL[:2])
@pytest.mark.thorough
def test_kill_at_each_step_of_a_move_leaves_all_or_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    moves: list[Row] = [("a", 20, "riga"), ("c", 20, "oslo")]
    after = sorted([*moves, STORED[1], STORED[3]])
    with monkeypatch.context() as patch:
        table = Lake(tmp_path / "table", kind, patch)
        table.write(STORED)
    seen = set()
    for step in range(1, 1000):
        path = tmp_path / f"table{step}"
        shutil.copytree(table.path, path)
        storage = KilledStorage(path, step, after=False)
        with monkeypatch.context() as patch:
            as_other_process(patch)
            patch.setattr("penstock.engine.write.planned_write.open_writable", lambda path, storage=storage: storage)
            try:
                penstock.write(str(path), arrow(moves))
            except Killed:
                pass
            else:
                break
        found = rows_of(penstock.read(str(path)).read_all())
        assert found in (STORED, after), f"part of a move at step {step}"
        seen.add(found == STORED)
        penstock.write(str(path), arrow([("a", 30, "bern")]))
        others = [row for row in found if row[0] != "a"]
        assert rows_of(penstock.read(str(path)).read_all()) == [("a", 30, "bern"), *others]
        shutil.rmtree(path)
    assert seen == {True, False} and step > 10
