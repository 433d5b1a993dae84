"""Logged changes from hand-written `.cdc` files, in the three logging modes and both formats."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from penstock.proto.errors import CorruptBlock, CorruptFile
from penstock.proto.model.changes import ChangeFormat, LoggedImages
from penstock.reader.read_split import ReadOptions
from tests.oracle import slice_writer
from tests.unit.reader.change_slices import ChangeFolder, instant, kinds_and

PLACE = {"type": "record", "name": "place", "fields": [{"name": "x", "type": ["null", "int"]}]}
FIELDS = {"id": "string", "v": "long", "tags": {"type": "array", "items": ["null", "string"]}, "place": PLACE}
COLUMNS = ("id", "v", "tags", "place")


def row(key: str, v: int | None, tags: list[str | None] | None = None, x: int | None = None) -> dict[str, Any]:
    return {"id": key, "v": v, "tags": tags, "place": None if x is None else {"x": x}}


def stored(result: dict[str, Any]) -> dict[str, Any]:
    """The row as a base file holds it."""
    return {"_hoodie_record_key": result["id"], "_hoodie_partition_path": "", **result}


def logged_schema(*fields: str, null_first: bool = True, name: str = "ns.row") -> dict[str, Any]:
    image = {
        "type": "record",
        "name": name,
        "fields": [{"name": column, "type": ["null", kind]} for column, kind in FIELDS.items()],
    }
    has_second = False

    def union(field: str) -> list[Any]:
        nonlocal has_second
        kind: Any = "string"
        if field in ("before", "after"):
            kind, has_second = (name if has_second else image), True
        return ["null", kind] if null_first else [kind, "null"]

    return {"type": "record", "name": "CDC", "fields": [{"name": field, "type": union(field)} for field in fields]}


OLD, NEW = row("a", 1, ["x", None], 7), row("a", 2, [], None)
BORN, DEAD = row("b", None, None, 3), row("c", 5, ["y"], 4)
CHANGES = [
    {"op": "i", "record_key": "b", "ts_ms": "1", "before": None, "after": BORN},
    {"op": "d", "record_key": "c", "ts_ms": "1", "before": DEAD, "after": None},
    {"op": "u", "record_key": "a", "ts_ms": "1", "before": OLD, "after": NEW},
]
ROWS = [
    ("-D", "c", 5, ["y"], {"x": 4}),
    ("+I", "b", None, None, {"x": 3}),
    ("-U", "a", 1, ["x", None], {"x": 7}),
    ("+U", "a", 2, [], None),
]
HUDI = [("d", DEAD, None), ("i", None, BORN), ("u", OLD, NEW)]

MODES = {
    "data_before_after": ("op", "ts_ms", "before", "after"),
    "data_before": ("op", "record_key", "before"),
    "op_key_only": ("op", "record_key"),
}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> ChangeFolder:
    return ChangeFolder(tmp_path, FIELDS)


def source_of(folder: ChangeFolder, mode: str, **more: Any) -> LoggedImages:
    """The three changes as the mode logs them, with the states that the mode needs."""
    log = folder.change_log(2, logged_schema(*MODES[mode], **more), CHANGES)
    before = folder.base(1, [stored(OLD), stored(DEAD)])
    after = folder.base(2, [stored(NEW), stored(BORN)])
    return LoggedImages(
        (log,),
        before if mode == "op_key_only" else None,
        None if mode == "data_before_after" else after,
        ("id",) if mode == "data_before_after" else (),
    )


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("null_first", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_rows(folder: ChangeFolder, mode: str, null_first: bool, compiled: bool) -> None:
    """Deletes first, an update's old row right before its new one; nested values whole."""
    source = source_of(folder, mode, null_first=null_first)
    result = folder.read((2, source), known=[1], options=ReadOptions(compiled=compiled))
    assert kinds_and(result, *COLUMNS) == ROWS
    assert result["_hoodie_record_key"].to_pylist() == ["c", "b", "a", "a"]
    assert result["_hoodie_partition_path"].to_pylist() == [""] * 4
    assert result["_hoodie_commit_time"].to_pylist() == [None, instant(2), None, instant(2)]
    assert set(result["_change_instant"].to_pylist()) == {instant(2)}
    assert result["_change_seq"].to_pylist() == sorted(set(result["_change_seq"].to_pylist()))


@pytest.mark.parametrize("mode", MODES)
def test_hudis_form(folder: ChangeFolder, mode: str) -> None:
    result = folder.read((2, source_of(folder, mode)), known=[1], form=ChangeFormat.HUDI)
    assert result["op"].to_pylist() == [op for op, _, _ in HUDI]
    assert result["ts_ms"].to_pylist() == [instant(2)] * 3
    for side, expected in (("before", [old for _, old, _ in HUDI]), ("after", [new for _, _, new in HUDI])):
        texts = result[side].to_pylist()
        is_logged = side in MODES[mode]
        for text, expected_rows in zip(texts, expected, strict=True):
            if expected_rows is None:
                assert text == ("null" if is_logged else None)
                continue
            image = {name: value for name, value in json.loads(text).items() if not name.startswith("_hoodie_")}
            assert image == (
                expected_rows
                if is_logged
                else {name: value for name, value in expected_rows.items() if value is not None}
            )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", "id")
def test_side_that_no_change_of_a_block_has(folder: ChangeFolder, mode: str, op: str) -> None:
    """Hudi's text `null` if the mode logs that side, else null: whatever else the block holds."""
    before, after = folder.base(1, [stored(DEAD)]), folder.base(2, [stored(BORN)])
    log = folder.change_log(2, logged_schema(*MODES[mode]), [change for change in CHANGES if change["op"] == op])
    keyed = mode == "op_key_only"
    source = LoggedImages((log,), before if keyed else None, None if mode == "data_before_after" else after)
    result = folder.read((2, source), known=[1], form=ChangeFormat.HUDI)
    absent = "before" if op == "i" else "after"
    assert result[absent].to_pylist() == ["null" if absent in MODES[mode] else None]


@pytest.mark.parametrize("form", ChangeFormat)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["op", "ts_ms", "record_key", "before", "after"])
def test_column_called_as_a_field_of_a_change(tmp_path: pathlib.Path, name: str, mode: str, form: ChangeFormat) -> None:
    folder = ChangeFolder(tmp_path, {"id": "string", name: "string"})
    image = {"type": "record", "name": "r", "fields": [{"name": n, "type": ["null", "string"]} for n in folder.fields]}
    kinds: dict[str, Any] = {"before": image, "after": "r" if "before" in MODES[mode] else image}
    logged = [{"name": field, "type": ["null", kinds.get(field, "string")]} for field in MODES[mode]]
    old, new = {"id": "a", name: "u"}, {"id": "a", name: "d"}
    change = {"op": "u", "record_key": "a", "ts_ms": "1", "before": old, "after": new}
    log = folder.change_log(2, {"type": "record", "name": "CDC", "fields": logged}, [change])
    keyed = "record_key" in MODES[mode]
    states = [folder.base(place, [stored(result)]) for place, result in ((1, old), (2, new))]
    source = LoggedImages((log,), *(states if keyed else (None, None)), () if keyed else ("id",))
    result = folder.read((2, source), known=[1], form=form)
    if form is ChangeFormat.ROWS:
        assert kinds_and(result, "_hoodie_record_key", name) == [("-U", "a", "u"), ("+U", "a", "d")]
        return
    assert result["op"].to_pylist() == ["u"]
    assert [json.loads(result[side][0].as_py())[name] for side in ("before", "after")] == ["u", "d"]


@pytest.mark.parametrize("mode", MODES)
def test_some_columns(folder: ChangeFolder, mode: str) -> None:
    """Also those that the images do not have, and none of the table's at all."""
    source = source_of(folder, mode)
    for columns in (("v",), ("_change_type",), ("_hoodie_partition_path", "place"), ("tags", "_change_seq", "id")):
        whole = folder.read((2, source), known=[1])
        assert folder.read((2, source), known=[1], columns=columns).equals(whole.select(columns))


def test_column_added_since_is_null(tmp_path: pathlib.Path) -> None:
    folder = ChangeFolder(tmp_path, {**FIELDS, "later": "double"})
    log = folder.change_log(2, logged_schema("op", "ts_ms", "before", "after"), CHANGES)
    result = folder.read((2, LoggedImages((log,), key_fields=("id",))), columns=("later", "id"))
    assert result.to_pydict() == {"later": [None] * 4, "id": ["c", "b", "a", "a"]}


def test_column_widened_since_has_the_tables_type(tmp_path: pathlib.Path) -> None:
    folder = ChangeFolder(tmp_path, {"id": "string", "v": "double"})
    old = {"id": "string", "v": "int"}
    image = {"type": "record", "name": "r", "fields": [{"name": n, "type": ["null", k]} for n, k in old.items()]}
    fields = [{"name": "op", "type": ["null", "string"]}, {"name": "after", "type": ["null", image]}]
    rows = [{"op": "i", "after": {"id": "a", "v": 3}}]
    log = folder.change_log(2, {"type": "record", "name": "CDC", "fields": fields}, rows)
    source = LoggedImages((log,), key_fields=("id",))
    result = folder.read((2, source), columns=("id", "v"))
    assert result.schema.field("v").type == "double"
    assert result["v"].to_pylist() == [3.0]
    stored = folder.read((2, source), form=ChangeFormat.HUDI)["after"].to_pylist()
    assert stored == ['{"id": "a", "v": 3.0}']


def test_hudis_form_has_the_tables_columns_types_and_order(tmp_path: pathlib.Path) -> None:
    """Hudi reads logged images with the table's schema: changed values are converted, what was not logged is null."""
    day = {"type": "int", "logicalType": "date"}
    price = {"type": "fixed", "name": "p5", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 2}
    wider = {**price, "name": "p9", "size": 4, "precision": 9}
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    inner = {"type": "record", "name": "inner", "fields": [{"name": "p", "type": ["null", "int"]}]}
    more = [{"name": name, "type": ["null", kind], "default": None} for name, kind in (("r", "string"), ("p", "long"))]
    cost = {**price, "name": "p6"}
    old: dict[str, Any] = {"at": millis, "gone": "string", "f": "float", "id": "string", "day": day, "price": price}
    old |= {"cost": cost, "st": inner}
    image = {"type": "record", "name": "r", "fields": [{"name": n, "type": ["null", k]} for n, k in old.items()]}
    fields = [{"name": "op", "type": ["null", "string"]}, {"name": "before", "type": ["null", image]}]
    fields.append({"name": "after", "type": ["null", "r"]})
    new = {"id": "string", "f": "string", "day": "string", "cost": cost, "price": wider, "at": millis, "added": "int"}
    folder = ChangeFolder(tmp_path, {**new, "st": {**inner, "fields": more}})
    row = {"at": 5, "gone": "x", "f": 1.5, "id": "a", "day": 1, "price": b"\x00\x00\x96", "cost": b"\xff\xff\x6a"}
    changes = [
        {"op": "i", "before": None, "after": {**row, "st": {"p": 7}}},
        {"op": "d", "before": {**dict.fromkeys(row), "id": "b"}, "after": None},
    ]
    log = folder.change_log(2, {"type": "record", "name": "CDC", "fields": fields}, changes)
    result = folder.read((2, LoggedImages((log,), key_fields=("id",))), form=ChangeFormat.HUDI)
    nothing = '"f": null, "day": null, "cost": null, "price": null, "at": null, "added": null, "st": null}'
    assert result["before"].to_pylist() == [f'{{"id": "b", {nothing}', "null"]
    assert result["after"].to_pylist() == [
        "null",
        '{"id": "a", "f": "1.5", "day": "1970-01-02", "cost": [-1, -1, 106], "price": [0, 0, 0, -106], "at": 5, '
        '"added": null, "st": {"r": null, "p": 7}}',
    ]


@pytest.mark.parametrize("mode", ["data_before_after", "op_key_only"])
def test_columns_are_found_by_id_where_the_table_has_a_history(tmp_path: pathlib.Path, mode: str) -> None:
    """`v` is called `w` now, and another column `v`: images of then show their value under the new name."""
    fields = {"id": "string", "w": "long", "v": "long"}
    names_then, names_now = {5: "id", 6: "v"}, {5: "id", 6: "w", 7: "v"}
    meta = [{"id": place, "name": name, "type": "string"} for place, name in enumerate(slice_writer.META)]
    history = {
        "schemas": [
            {
                "version_id": version,
                "max_column_id": 7,
                "type": "record",
                "fields": [
                    *meta,
                    *({"id": n, "name": name, "type": "string" if n == 5 else "long"} for n, name in names.items()),
                ],
            }
            for version, names in ((int(instant(3)), names_now), (0, names_then))
        ]
    }
    then = ChangeFolder(tmp_path, {"id": "string", "v": "long"})
    image = {
        "type": "record",
        "name": "r",
        "fields": [{"name": n, "type": ["null", k]} for n, k in then.fields.items()],
    }
    kinds: dict[str, Any] = {"op": "string", "record_key": "string", "before": image, "after": "r"}
    logged = [{"name": name, "type": ["null", kinds[name]]} for name in MODES[mode] if name in kinds]
    old, new = {"id": "a", "v": 1}, {"id": "a", "v": 2}
    change = {"op": "u", "record_key": "a", "before": old, "after": new}
    log = then.change_log(2, {"type": "record", "name": "CDC", "fields": logged}, [change])
    keyed = mode == "op_key_only"
    before, after = then.base(1, [stored(old)]), then.base(2, [stored(new)])
    source = LoggedImages((log,), before if keyed else None, after if keyed else None, () if keyed else ("id",))
    now = ChangeFolder(tmp_path, fields)
    result = now.read((2, source), known=[1, 3], schema_history=json.dumps(history))
    assert kinds_and(result, "_hoodie_record_key", "w", "v") == [("-U", "a", 1, None), ("+U", "a", 2, None)]
    texts = now.read((2, source), known=[1, 3], schema_history=json.dumps(history), form=ChangeFormat.HUDI)
    if not keyed:
        assert texts["before"].to_pylist() == ['{"id": "a", "w": 1, "v": null}']
        assert texts["after"].to_pylist() == ['{"id": "a", "w": 2, "v": null}']


def test_several_files_and_blocks(folder: ChangeFolder) -> None:
    schema = logged_schema("op", "ts_ms", "before", "after")
    one = folder.change_log(2, schema, CHANGES[:1], CHANGES[1:])
    two = folder.change_log(3, schema, [{**CHANGES[0], "after": row("z", 9)}])
    result = folder.read((2, LoggedImages((one, two), key_fields=("id",))))
    assert kinds_and(result, "id") == [("-D", "c"), ("+I", "b"), ("-U", "a"), ("+U", "a"), ("+I", "z")]
    assert result.sort_by("_change_seq").equals(result)  # a group's changes come in order, whatever block they are in


def test_empty_block(folder: ChangeFolder) -> None:
    log = folder.change_log(2, logged_schema("op", "ts_ms", "before", "after"), [])
    assert folder.read((2, LoggedImages((log,), key_fields=("id",)))).num_rows == 0


def broken(folder: ChangeFolder, change: dict[str, Any], mode: str = "data_before_after") -> LoggedImages:
    log = folder.change_log(2, logged_schema(*MODES[mode]), [CHANGES[2], change])
    before, after = folder.base(1, [stored(OLD)]), folder.base(2, [stored(NEW)])
    keyed = mode != "data_before_after"
    return LoggedImages((log,), before if keyed else None, after if keyed else None, () if keyed else ("id",))


@pytest.mark.parametrize("op", ["x", "", "ii", None, "I", "é"])
def test_unknown_operation(folder: ChangeFolder, op: str | None) -> None:
    with pytest.raises(CorruptBlock, match=r"orders.*\.cdc.*change 1 is not i, u or d"):
        folder.read((2, broken(folder, {**CHANGES[0], "op": op})))


@pytest.mark.parametrize(
    "change",
    [
        {**CHANGES[0], "before": OLD},
        {**CHANGES[0], "after": None},
        {**CHANGES[1], "before": None},
        {**CHANGES[2], "before": None},
        {**CHANGES[2], "after": None},
    ],
)
@pytest.mark.parametrize("form", ChangeFormat)
def test_images_that_do_not_go_with_the_operation(
    folder: ChangeFolder, change: dict[str, Any], form: ChangeFormat
) -> None:
    with pytest.raises(CorruptBlock, match=r"orders.*\.cdc"):
        folder.read((2, broken(folder, change)), form=form)


@pytest.mark.parametrize(("mode", "side"), [("data_before", "after"), ("op_key_only", "before")])
def test_key_without_a_row(folder: ChangeFolder, mode: str, side: str) -> None:
    change = {"op": "i" if side == "after" else "d", "record_key": "nosuch", "before": None, "after": None}
    with pytest.raises(CorruptFile, match=rf"\.cdc.*key 'nosuch' has no row in the state {side} the commit"):
        folder.read((2, broken(folder, change, mode)), known=[1])


def test_mode_that_was_changed_since(folder: ChangeFolder) -> None:
    """The plan expects logged images, but the log holds only operations and keys."""
    log = folder.change_log(2, logged_schema("op", "record_key"), CHANGES)
    with pytest.raises(CorruptFile, match=r"\.cdc.*logging mode"):
        folder.read((2, LoggedImages((log,), key_fields=("id",))))


def test_logged_row_without_a_key(folder: ChangeFolder) -> None:
    with pytest.raises(CorruptBlock, match=r"\.cdc.*without id"):
        folder.read((2, broken(folder, {**CHANGES[0], "after": {**BORN, "id": None}})))


@pytest.mark.parametrize("damage", ["cut", "flipped", "garbage"])
def test_damage_is_an_error_not_fewer_changes(folder: ChangeFolder, damage: str) -> None:
    source = source_of(folder, "data_before_after")
    path = folder.folder / source.files[0].path
    data = path.read_bytes()
    match damage:
        case "cut":
            data = data[:-9]
        case "flipped":
            data = data[:-4] + bytes([data[-4] ^ 0xFF]) + data[-3:]
        case "garbage":
            data += b"not a block"
    path.write_bytes(data)
    source = LoggedImages((folder.ref(path),), key_fields=("id",))
    with pytest.raises(CorruptBlock, match=r"orders: changes of instant \d+ .*\.cdc are no log block.*are lost"):
        folder.read((2, source))


def test_file_that_is_gone(folder: ChangeFolder) -> None:
    source = source_of(folder, "data_before_after")
    (folder.folder / source.files[0].path).unlink()
    with pytest.raises(CorruptFile, match=r"\.cdc"):
        folder.read((2, source))


def test_logged_key_counts_where_images_are_logged_too(folder: ChangeFolder) -> None:
    """Without key columns in the plan the key is the logged one."""
    source = source_of(folder, "data_before")
    result = folder.read((2, source), known=[1], columns=("_hoodie_record_key",))
    assert result["_hoodie_record_key"].to_pylist() == ["c", "b", "a", "a"]


def test_duplicate_key_takes_its_first_row(folder: ChangeFolder) -> None:
    log = folder.change_log(2, logged_schema("op", "record_key"), [CHANGES[2]])
    before = folder.base(1, [stored(OLD), stored({**OLD, "v": 99})])
    result = folder.read((2, LoggedImages((log,), before, folder.base(2, [stored(NEW)]))), known=[1])
    assert kinds_and(result, "v") == [("-U", 1), ("+U", 2)]


def test_many_changes_in_small_batches(folder: ChangeFolder) -> None:
    rows = [
        {
            "op": "iud"[n % 3],
            "before": row(f"k{n}", n) if n % 3 else None,
            "after": row(f"k{n}", -n) if n % 3 < 2 else None,
        }
        for n in range(50)
    ]
    log = folder.change_log(2, logged_schema("op", "before", "after"), rows[:20], rows[20:])
    source = LoggedImages((log,), key_fields=("id",))
    whole = folder.read((2, source))
    assert whole.sort_by("_change_seq").equals(whole)
    assert whole.num_rows == 17 + 2 * 17 + 16
    assert folder.read((2, source), options=ReadOptions(batch_rows=7)).equals(whole)
    for start in (0, 1, 7, 33, whole.num_rows, whole.num_rows + 5):
        assert folder.read((2, source), start=start, options=ReadOptions(batch_rows=7)).equals(whole.slice(start))
