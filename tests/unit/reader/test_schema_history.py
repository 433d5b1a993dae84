"""Slices of tables with a schema-on-read history: random renames, drops, additions; every value under its id's name."""

from __future__ import annotations

import json
import pathlib
import tempfile
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.reader.read_split import ReadOptions
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from tests.oracle import slice_writer
from tests.unit.reader.slices import BASE_INSTANT, SliceFolder, comparable

NAMES = ("a", "b", "c", "d")
STEP = st.one_of(
    st.tuples(st.just("rename"), st.integers(0, 3), st.sampled_from(NAMES)),
    st.tuples(st.just("drop"), st.integers(0, 3), st.just("")),
    st.tuples(st.just("add"), st.integers(0, 3), st.sampled_from(NAMES)),
    st.tuples(st.just("write"), st.integers(1, 3), st.sampled_from(["avro", "parquet"])),
)


@dataclass
class Altered:
    """A table that is altered: columns by id, in order, and inside of `s` likewise."""

    folder: SliceFolder
    columns: dict[int, str] = field(default_factory=lambda: {100: "a", 101: "b"})
    inside: dict[int, str] = field(default_factory=lambda: {200: "a", 201: "b"})
    next_id: int = 300
    clock: int = int(BASE_INSTANT)
    versions: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[str, dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.note(0)

    def note(self, number: int) -> None:
        """The present columns as the version `number`."""
        meta = [{"id": place, "name": name, "type": "string"} for place, name in enumerate(slice_writer.META)]
        inside = [{"id": id_, "name": name, "type": "int"} for id_, name in self.inside.items()]
        own = [{"id": id_, "name": name, "type": "int"} for id_, name in self.columns.items()]
        nested = {"id": 99, "name": "s", "type": {"type": "record", "fields": inside}}
        version = {"version_id": number, "max_column_id": 999, "type": "record", "fields": [*meta, *own, nested]}
        self.versions.insert(0, version)

    def fields(self) -> dict[str, Any]:
        inner = [{"name": name, "type": ["null", "int"], "default": None} for name in self.inside.values()]
        return {**dict.fromkeys(self.columns.values(), "int"), "s": {"type": "record", "name": "s", "fields": inner}}

    def alter(self, what: str, place: int, name: str) -> None:
        """Renames or drops the column at `place` (counted over both levels), or adds one at its level."""
        self.clock += 1
        level = self.columns if place % 2 else self.inside
        free = name not in level.values()
        target = list(level)[place % len(level)]
        if what == "rename" and free:
            level[target] = name
        elif what == "drop" and len(level) > 1:
            del level[target]
        elif what == "add" and free:
            level[self.next_id] = name
            self.next_id += 1
        self.note(self.clock)

    def write(self, count: int, base: bool, block: str = "avro") -> None:
        """Rows with a value of their own in each column, under the present names."""
        self.clock += 1
        created = []
        for number in range(count):
            key = f"k{number}"
            held = {id_: self.clock % 10_000 * 1000 + id_ + number for id_ in (*self.columns, *self.inside)}
            self.rows[key] = held
            own = {name: held[id_] for id_, name in self.columns.items()}
            created.append({"_hoodie_record_key": key, **own, "s": {n: held[i] for i, n in self.inside.items()}})
        avro = slice_writer.table_schema(self.fields())
        arrow = arrow_schema(parse_record_schema(json.dumps(avro)))
        if base:
            self.folder.write_base([created], arrow)
        elif block == "parquet":
            self.folder.write_log(slice_writer.parquet_block(arrow, created, str(self.clock)))
        else:
            self.folder.write_log(slice_writer.data_block(avro, created, str(self.clock)))

    def expected(self) -> list[str]:
        result = [
            {
                **{name: held.get(id_) for id_, name in self.columns.items()},
                "s": {name: held.get(id_) for id_, name in self.inside.items()},
            }
            for held in self.rows.values()
        ]
        return sorted(comparable(result))

    def read(self, compiled: bool) -> list[str]:
        self.folder.fields = self.fields()
        history = json.dumps({"schemas": self.versions})
        names = tuple(self.folder.fields)
        return sorted(
            comparable(self.folder.rows(columns=names, schema_history=history, options=ReadOptions(compiled=compiled)))
        )


@settings(max_examples=80, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=12), st.booleans())
def test_values_stay_with_their_id(steps: list[tuple[str, int, str]], with_base: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        table = Altered(SliceFolder(pathlib.Path(name), {}))
        if with_base:
            table.clock -= 1
            table.write(3, base=True)
        for what, place, new in steps:
            if what == "write":
                table.write(place, base=False, block=new)
            else:
                table.alter(what, place, new)
        if not table.rows:
            table.write(1, base=False)
        for compiled in (True, False):
            assert table.read(compiled) == table.expected()


@pytest.mark.parametrize("compiled", [True, False])
def test_partial_update_fills_the_column_of_its_id(tmp_path: pathlib.Path, compiled: bool) -> None:
    """An update of `b` alone under its old name, between a row of both columns and the renaming."""
    table = Altered(SliceFolder(tmp_path, {}))
    table.clock -= 1
    table.write(1, base=True)
    table.clock += 1
    update = slice_writer.table_schema({"b": "int"})
    row = {"_hoodie_record_key": "k0", "b": 7}
    table.folder.write_log(slice_writer.data_block(update, [row], str(table.clock), partial=True))
    table.rows["k0"][101] = 7
    table.alter("rename", 1, "c")
    assert "c" in table.columns.values()
    assert table.read(compiled) == table.expected()


def test_reused_column_name_does_not_return_values_of_the_old_column(tmp_path: pathlib.Path) -> None:
    table = Altered(SliceFolder(tmp_path, {}))
    table.clock -= 1
    table.write(1, base=True)
    table.alter("drop", 1, "")
    dropped = next(name for name in ("a", "b") if name not in table.columns.values())
    table.alter("add", 1, dropped)
    assert table.read(True) == table.expected()
    (row,) = table.folder.rows(columns=(dropped,), schema_history=json.dumps({"schemas": table.versions}))
    assert row == {dropped: None}


def test_column_of_a_file_that_no_version_names_is_passed_over(tmp_path: pathlib.Path) -> None:
    table = Altered(SliceFolder(tmp_path, {}))
    table.write(1, base=False)
    table.folder.fields = {**table.fields(), "late": "int"}
    row = {"_hoodie_record_key": "new", "a": 5, "late": 1}
    table.folder.write_log(slice_writer.data_block(table.folder.avro, [row], str(table.clock)))
    result = table.folder.rows(columns=("a",), schema_history=json.dumps({"schemas": table.versions}))
    assert {"a": 5} in result
    assert len(result) == 2


def test_file_older_than_the_history_is_of_its_oldest_version(tmp_path: pathlib.Path) -> None:
    table = Altered(SliceFolder(tmp_path, {}))
    table.write(2, base=True)
    table.write(1, base=False)
    table.versions[-1]["version_id"] = table.clock + 1
    table.clock += 1
    table.alter("rename", 1, "c")
    assert table.read(True) == table.expected()
    assert table.read(False) == table.expected()
