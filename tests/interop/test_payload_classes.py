"""Payload classes of Hudi 1.2.0 that fail in its own writer or reader (docs/reference/semantics.md, "Merging")."""

from __future__ import annotations

import pathlib
from typing import Any, Final

import pytest

import penstock
from tests.interop.hudi_options import hudis_options

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

CLASSES: Final = "org.apache.hudi.common.model."
REVERSE: Final = f"{CLASSES}ReverseOrderHoodieRecordPayload"
COLUMNS: Final = (
    ("id", "c0"),
    ("city", "'oslo'"),
    ("seq", "lpad(CAST(c1 AS STRING), 2, '0')"),
    ("v", "CAST(c2 AS INT)"),
)


def options_of(payload: str, version: int) -> dict[str, str]:
    options = hudis_options(version, "merge_on_read", "simple")
    return options | {"hoodie.datasource.write.payload.class": payload}


@pytest.mark.sampled(0, rest=2)
@pytest.mark.parametrize("payload", ["RewriteAvroPayload", "HoodieJsonPayload"])
def test_class_without_hudis_constructor_fails_in_hudi(hudi: Any, tmp_path: pathlib.Path, payload: str) -> None:
    path, options = tmp_path / "trip", options_of(CLASSES + payload, 6)
    with pytest.raises(RuntimeError, match=payload):
        for seq in (1, 2):
            hudi.write(path, COLUMNS, [("a", seq, seq)], options)
        hudi.read(path)


@pytest.mark.exhaustive
def test_delete_by_text_in_reverse_order_fails_in_hudi_alone(hudi: Any, tmp_path: pathlib.Path) -> None:
    """The delete of `b` has a higher text than the record in the log, so it loses. That of `c` has a lower one."""
    path, options = tmp_path / "trip", options_of(REVERSE, 9)
    columns = [*COLUMNS, ("_hoodie_is_deleted", "c2 = 0")]
    hudi.write(path, columns, [("a", 5, 1), ("b", 5, 1), ("c", 5, 1)], options)
    hudi.write(path, columns, [("b", 4, 2), ("c", 4, 2)], options)
    assert values(penstock.read(str(path)).read_all()) == values(hudi.read(path)) == {"a": 1, "b": 2, "c": 2}
    hudi.write(path, columns, [("b", 6, 0), ("c", 3, 0)], options)
    with pytest.raises(RuntimeError, match="ClassCastException"):
        hudi.read(path)
    assert values(penstock.read(str(path)).read_all()) == {"a": 1, "b": 2}


def values(rows: Any) -> dict[str, int]:
    return {row["id"]: row["v"] for row in rows.to_pylist()}
