"""Merge-on-read tables of Hudi that are ordered by a field of a struct: after each write both return the same rows."""

from __future__ import annotations

import pathlib
from typing import Any, Final

import pyarrow as pa
import pytest

import penstock
from penstock.reader.merge import ordering_columns, payload_orders
from tests.interop.hudi_options import COMPACTS, hudis_options

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

Write = tuple[str, list[tuple[str, int | None, int]]]
"""(operation, rows of key, ordering number and value). Rows of `marked` are marked as deleted; `compact` is an upsert
with a compaction after it."""

WRITES: Final[tuple[Write, ...]] = (
    ("upsert", [(key, 5, 1) for key in "abcdefgh"]),
    ("upsert", [("a", 4, 2), ("b", 6, 2), ("c", 5, 2)]),
    ("upsert", [("c", 3, 3), ("a", 9, 3), ("n", 1, 3), ("d", 5, 0)]),
    ("marked", [("e", 4, 0), ("f", 6, 0), ("g", 5, 9)]),
    ("upsert", [("f", 5, 4), ("e", 4, 4)]),
    ("delete", [("b", 1, 0), ("h", 8, 0)]),
    ("upsert", [("h", 7, 5), ("b", 2, 5)]),
)
NULLS: Final[tuple[Write, ...]] = (
    ("upsert", [("a", 5, 1), ("b", None, 1), ("d", -3, 1), ("e", 0, 1)]),
    ("upsert", [("a", None, 2), ("b", 3, 2)]),
    ("upsert", [("b", None, 3), ("d", None, 3), ("e", None, 3)]),
)
"""Hudi writes no null struct, and fails on a null of another type than int."""
COMPACTED: Final[tuple[Write, ...]] = (
    *WRITES,
    ("compact", [("d", 7, 6), ("i", 1, 6)]),
    ("upsert", [("a", 1, 7), ("c", 9, 7), ("d", 5, 7), ("f", 4, 7), ("z", 3, 7)]),
    ("marked", [("e", 9, 0), ("h", 1, 0), ("z", 3, 0)]),
    ("delete", [("b", 9, 0), ("c", 1, 0), ("n", 1, 0)]),
    ("upsert", [("c", 9, 8), ("e", 8, 8), ("h", 9, 8), ("z", 2, 8)]),
)
NUMBER: Final = "CAST(c1 AS INT)"
CASES: Final = (
    (9, "s.a.seq", "CAST(c1 AS BIGINT)", WRITES),
    (6, "s.a.seq", "lpad(c1, 3, '0')", WRITES),
    (9, "s.a.seq,s.x", "timestamp_micros(1600000000000000 + c1)", WRITES),
    (9, "s.a.seq", NUMBER, NULLS),
    (6, "s.a.seq", NUMBER, NULLS),
)
REVERSE: Final = "org.apache.hudi.common.model.ReverseOrderHoodieRecordPayload"
FIRST_VALUE: Final = "org.apache.hudi.common.model.FirstValueAvroPayload"
PAYLOADS: Final = (
    ("hudi", 9, REVERSE, "s.a.seq", "CAST(c1 AS BIGINT)"),
    ("old_hudi", 6, FIRST_VALUE, "s.a.seq", "CAST(c1 - 5 AS INT)"),
    *(
        pytest.param(*case, marks=pytest.mark.long)
        for case in (
            ("hudi", 6, REVERSE, "s.a.seq", "timestamp_micros(1600000000000000 + c1)"),
            ("hudi", 9, REVERSE, "s.a.seq,s.x", NUMBER),
            ("old_hudi", 6, FIRST_VALUE, "s.a.seq", "CAST(c1 AS BIGINT)"),
        )
    ),
)
"""(writer, table version, class, ordering fields, expression). Hudi 0.15.0 alone has `FirstValueAvroPayload`."""


def write(hudi: Any, path: pathlib.Path, done: Write, kind: str, options: dict[str, str]) -> None:
    operation, rows = done
    columns = [
        ("id", "c0"),
        ("city", "'oslo'"),
        ("s", f"named_struct('a', named_struct('seq', {kind}), 'x', CAST(c2 AS INT))"),
        ("v", "CAST(c2 AS INT)"),
        ("_hoodie_is_deleted", str(operation == "marked").lower()),
    ]
    named = {"hoodie.datasource.write.operation": "delete" if operation == "delete" else "upsert"}
    named |= COMPACTS if operation == "compact" else {}
    hudi.write(path, columns, rows, options | named)


def rows_of(table: pa.Table) -> list[tuple[str, int]]:
    return sorted((row["id"], row["v"]) for row in table.to_pylist())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "fields", "kind", "writes"), CASES, ids=["long", "text", "two", "nulls", "nulls6"])
def test_rows_after_each_write_equal_hudis(
    hudi: Any,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    fields: str,
    kind: str,
    writes: tuple[Write, ...],
) -> None:
    path = tmp_path / "trip"
    options = hudis_options(version, "merge_on_read", "bucket")
    options["hoodie.datasource.write.precombine.field"] = fields
    if version == 6:
        options["hoodie.datasource.write.payload.class"] = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    else:
        options |= dict.fromkeys(("hoodie.record.merge.mode", "hoodie.write.record.merge.mode"), "EVENT_TIME_ORDERING")
    for number, done in enumerate(writes):
        write(hudi, path, done, kind, options)
        expected = rows_of(hudi.read(path))
        assert rows_of(penstock.read(str(path)).read_all()) == expected, number
        assert rows_of(penstock.read(str(path), columns=["id", "v"]).read_all()) == expected, number
    with pytest.raises(penstock.errors.UnsupportedFeature, match=r"ordered by 's\.a\.seq', a field of a struct"):
        penstock.write(str(path), pa.table({"id": ["a"]}))

    values = ordering_columns.field_values
    monkeypatch.setattr(
        ordering_columns, "field_values", lambda batch, name: pa.nulls(batch.num_rows, values(batch, name).type)
    )
    assert rows_of(penstock.read(str(path)).read_all()) != expected, "the negative control: the field is compared"


@pytest.mark.sampled(1, rest=1)
@pytest.mark.parametrize(
    ("writer", "version", "payload", "fields", "kind"),
    PAYLOADS,
    ids=["reverse", "first int", "reverse6", "two", "first"],
)
def test_rows_of_payload_classes_that_order_equal_hudis(
    request: pytest.FixtureRequest,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    writer: str,
    version: int,
    payload: str,
    fields: str,
    kind: str,
) -> None:
    hudi, path = request.getfixturevalue(writer), tmp_path / "trip"
    options = hudis_options(version, "merge_on_read", "bucket")
    options |= {"hoodie.datasource.write.precombine.field": fields, "hoodie.datasource.write.payload.class": payload}
    differing = 0
    for number, done in enumerate(COMPACTED):
        write(hudi, path, done, kind, options)
        expected = rows_of(hudi.read(path))
        assert rows_of(penstock.read(str(path)).read_all()) == expected, number
        assert rows_of(penstock.read(str(path), columns=["id", "v"]).read_all()) == expected, number
        with monkeypatch.context() as patch:
            patch.setattr(payload_orders, "field_values", lambda batch, _: pa.nulls(batch.num_rows, pa.int64()))
            differing += rows_of(penstock.read(str(path)).read_all()) != expected
    assert differing, "the negative control: the field is compared"
