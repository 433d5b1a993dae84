"""Changes of a row group, against a plain comparison of its rows."""

from __future__ import annotations

import io
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.config.change_logging import ChangeLogging
from penstock.writer.files import row_changes
from penstock.writer.files.change_log import ChangeLogWriter
from penstock.writer.files.row_changes import RowChanges
from tests.unit.writer.files.test_change_log import DATA, T, image, records_of, rows


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=8), st.randoms(use_true_random=False))
def test_rows_that_go_are_paired_with_those_that_arrive(keys: list[tuple[bool, int]], random: object) -> None:
    """Each key goes, some are replaced; rows arrive in any order, in parts. Then new keys come."""
    with mock.patch.object(row_changes, "_STEP", 2):
        check_pairs(keys, random)


def check_pairs(keys: list[tuple[bool, int]], random: object) -> None:
    sink = io.BytesIO()
    log = ChangeLogWriter(sink, T, ChangeLogging.DATA_BEFORE_AFTER, DATA)
    changes = RowChanges(log)
    parts: dict[int, list[int]] = {}
    for number, (_, part) in enumerate(keys):
        parts.setdefault(part, []).append(number)
    gone = [number for part in sorted(parts) for number in parts[part]]
    for part in sorted(parts):
        changes.gone(rows(*((f"k{number}", number) for number in parts[part])), np.array(parts[part], np.int64))
    arriving = [number for number, (replaced, _) in enumerate(keys) if replaced]
    random.shuffle(arriving)  # type: ignore[attr-defined]
    for some in (arriving[:2], arriving[2:]):
        changes.arrived(rows(*((f"k{number}", -number) for number in some)), np.array(some, np.int64))
    changes.end_row_group()
    changes.end_row_group()
    changes.inserted(rows(("new", 1)))
    log.close()
    expected = [
        {
            "op": "u" if keys[number][0] else "d",
            "ts_ms": T,
            "before": image(f"k{number}", number),
            "after": image(f"k{number}", -number) if keys[number][0] else None,
        }
        for number in gone
    ]
    expected.append({"op": "i", "ts_ms": T, "before": None, "after": image("new", 1)})
    ((_, records),) = records_of(sink.getvalue())
    assert records == expected
