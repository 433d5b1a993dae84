"""Changes of golden tables: comparison with Hudi's changes, and folding into a state. For tests."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.model.queries import PlanRequest, Query
from penstock.reader.read_split import ReadOptions, output_schema, read_split
from penstock.table.hudi_table import open_table
from tests.golden.rows import canonical_texts

OWN = ("_change_type", "_change_instant", "_change_seq")
UNSETTLED = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name", "_hoodie_operation")
"""Meta columns that differ between a change and its row."""
KEY = ("_hoodie_partition_path", "_hoodie_record_key")

DUMPED = "B_v6_cdc_types_cow/cdc_01"
"""Hudi 0.15.0's reader wrote the memory layout of Avro objects instead of their values into these images. 1.2.0's
result for the same range (`cdc_01__r120`) is right, and counted."""


def rows_of(path: pathlib.Path, query: Query, *, options: ReadOptions | None = None, **more: Any) -> pa.Table:
    """Penstock's rows for a query, read split by split."""
    plan = plan_request(open_table(str(path)), path.name, PlanRequest(table=path.name, query=query, **more))
    batches = [part.batch for split in plan.splits for part in read_split(plan.scan, split, options=options)]
    return pa.Table.from_batches(batches, output_schema(plan.scan))


def hudi_changes(table: pa.Table, lost: Collection[str]) -> Counter[tuple[str, str, str, str]]:
    """Hudi's four columns with images as parsed JSON, without meta columns and those of `lost`."""
    sides = [[_image(text, lost) for text in table[side].to_pylist()] for side in ("before", "after")]
    return Counter(zip(table["op"].to_pylist(), table["ts_ms"].to_pylist(), *sides, strict=True))


def lost_decimals(table: pa.Table) -> set[str]:
    """The columns whose decimals Hudi lost: it writes {"zero": false} for those of images from files."""
    images = (json.loads(text) for side in ("before", "after") for text in table[side].to_pylist() if text)
    return {
        name
        for image in images
        if image
        for name, value in image.items()
        if isinstance(value, dict) and "zero" in value
    }


def _image(text: str | None, lost: Collection[str]) -> str:
    image = json.loads(text) if text else None
    if isinstance(image, dict):
        image = {k: _rounded(v) for k, v in image.items() if not k.startswith("_hoodie_") and k not in lost}
    return json.dumps(image, sort_keys=True)


def _rounded(value: object) -> object:
    match value:
        case bool():
            return value
        case float():
            return float(f"{value:.12g}")
        case dict():
            return {key: _rounded(inner) for key, inner in value.items()}
        case list():
            return [_rounded(inner) for inner in value]
    return value


def state_of(rows: pa.Table, *, without: Collection[str] = ()) -> Counter[str]:
    """Rows as a multiset, without the meta columns that changes do not determine, and without `without`."""
    return Counter(_texts(rows, without))


def canonical_changes(changes: pa.Table) -> Counter[str]:
    """Changes as a multiset: whole rows, and the place of each among the changes of its key. Their place among those of
    other keys in the same commit is not part of them."""
    sequence, keys = changes["_change_seq"].to_pylist(), keys_of(changes)
    seen: Counter[tuple[str, ...]] = Counter()
    places = [""] * len(sequence)
    for number in sorted(range(len(sequence)), key=sequence.__getitem__):
        places[number] = str(seen[keys[number]])
        seen[keys[number]] += 1
    return Counter(canonical_texts(changes.drop_columns(["_change_seq"]).append_column("place", pa.array(places))))


def is_in_order(changes: pa.Table) -> bool:
    """Whether the changes come in the order of their sequence numbers, each with one of its own."""
    return all(before < after for before, after in pairwise(changes["_change_seq"].to_pylist()))


def balance(changes: pa.Table, *, without: Collection[str] = ()) -> dict[str, int]:
    """For each row the number of changes that add it minus those that remove it; rows with 0 are omitted."""
    counts: Counter[str] = Counter()
    for text, kind in zip(_texts(changes, without), changes["_change_type"].to_pylist(), strict=True):
        counts[text] += 1 if kind[0] == "+" else -1
    return {text: count for text, count in counts.items() if count}


def by_key(rows: pa.Table, *, without: Collection[str] = ()) -> dict[tuple[str, ...], str]:
    """Each key's row; the last one of a duplicate key."""
    return dict(zip(keys_of(rows), _texts(rows, without), strict=True))


def keys_of(rows: pa.Table) -> list[tuple[str, ...]]:
    """Partition and record key of each row."""
    return list(zip(*(rows[name].to_pylist() for name in KEY), strict=True))


def folded(
    changes: pa.Table, start: dict[tuple[str, ...], str], *, without: Collection[str] = ()
) -> dict[tuple[str, ...], str]:
    """The last row of each key after every change, applied in the order of `_change_seq`. AssertionError: a change
    removes a row that is not there, or adds one that is."""
    state = dict(start)
    keys = keys_of(changes)
    kinds, order = changes["_change_type"].to_pylist(), changes["_change_seq"].to_pylist()
    for _, key, kind, text in sorted(zip(order, keys, kinds, _texts(changes, without), strict=True)):
        assert (key in state) == (kind[0] == "-"), f"{kind} of {key}"
        if kind[0] == "+":
            state[key] = text
        else:
            del state[key]
    return state


def _texts(table: pa.Table, without: Iterable[str]) -> Sequence[str]:
    left_out = {*UNSETTLED, *OWN, *without}
    return canonical_texts(table.select([name for name in table.column_names if name not in left_out]))
