"""Changes fold to the states of golden tables that are still readable: to every one of each table in `make long`."""

from __future__ import annotations

import json
import pathlib
import random
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa
import pytest

from penstock.enumerator.planning.commit_order import completed_in_order
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import (
    ConfigurationError,
    CorruptBlock,
    CorruptFile,
    PositionExpired,
    SchemaMismatch,
    UnsupportedFeature,
)
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.reader.read_split import ReadOptions, read_split
from penstock.table.hudi_table import open_table
from tests.golden.changes import balance, by_key, folded, is_in_order, keys_of, rows_of, state_of

pytestmark = pytest.mark.golden

MULTIPLIED = (
    "B_v6_inc_cow",
    "B_v6_cdc_cow_op_key_only",
    "B_v6_cdc_cow_data_before_after",
    "B_v6_timeline_mor",
    "E_cow_cdc_v9",
    "E_cow_v6",
    "E_cow_v9",
    "E_history_cow313_v6",
    "E_history_cow989_v9",
    "E_history_mor185_v6",
    "E_history_mor561_v9",
    "E_mdt_cow_v9",
    "E_mixed_cow_v9",
    "E_mor_compacted_v6",
    "E_mor_v6",
    "E_mor_v9",
    "E_nonpart_cow_v9",
    "E_nonpart_mor_v6",
    "E_nonpart_mor_v9",
    "E_widened_v6",
    "E_widened_v9",
)
"""Hudi 0.15.0's writer multiplied the decimals of carried-over rows by 100 when it rewrote a clustered file, and those
of 0.15.0 and 1.2.0 when they rewrote a skeleton of a bootstrapped table, so rows changed without a commit. Compared
without the column `amt`; `test_rewrite_multiplied_decimals` proves it."""

WITHOUT_NULLS = (
    "H_lance_history_mor15_v9",
    "H_lance_history_mor194_v6",
    "H_lance_history_mor71_v9",
    "H_lance_mor_v6",
    "H_lance_mor_v9",
)
"""A compaction or clustering of Hudi 1.2.0 wrote null structs as structs of nulls, because its Lance files have no null
structs, so rows changed without a commit. Compared without the columns `structs` and `opt`;
`test_service_wrote_structs_of_nulls` proves it by Hudi's rows."""

CUT_TIMES = {
    "F_orc_far_cow_v9": ("at", "ats", "m", "st"),
    "F_orc_far_zone_v9": ("at", "ats", "m", "st"),
    "F_orc_history_cow323_v9": ("times",),
    "F_orc_zone_cow_v9": ("at", "ats", "m", "st"),
    "F_orc_zone_lzo_v9": ("at", "ats", "m", "st"),
}
"""Hudi 1.2.0 drops fractions of a second in ORC: some when it writes a file, so that the images of changes that it logs
have other values, the rest when it rewrites one, so rows changed without a commit. Compared without these columns;
`test_images_have_whole_times` and `test_rewrite_cut_times` prove it by Hudi's answers."""

NULLS_IN_IMAGES = "H_lance_history_cow22_v9"
"""The images of changes that Hudi 1.2.0 logged have null structs where its Lance files have structs of nulls. Compared
without the same columns; `test_images_have_null_structs` proves it by Hudi's answers."""

BY_COMPACTION = "B_v8_inc_mor"
COMPACTED_AT = "20261120215733184"
"""1.0.2's compaction wrote rows that lose the merge, so rows changed without a commit. Compared up to it, and after it;
`test_compaction_changed_rows` proves it."""

STORED_KINDS = re.compile(r"D_changelog_(?!cow|cdc_cow|spark)")
"""Changelogs whose writer stored minus records with another ordering value than that of the removed rows: their changes
fold (`test_changelog_tables`), but do not balance."""

READABLE = (PositionExpired, UnsupportedFeature, ConfigurationError, CorruptFile, CorruptBlock, SchemaMismatch)
"""Reasons why a state of a golden table is unreadable: files that were cleaned, or deliberately damaged."""


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def names(self) -> list[str]: ...


def at(order_key: str) -> Position:
    return Position(InstantTime(order_key)) if order_key else EARLIEST


def rows_at(path: pathlib.Path, key: str) -> pa.Table:
    return rows_of(path, Incremental(EARLIEST, at(key)))


def changes_of(path: pathlib.Path, after: str, upto: str, **more: Any) -> pa.Table:
    """The changes of (after, upto]; '' is the start."""
    return rows_of(path, Changes(ChangeFormat.ROWS, at(after), at(upto)), **more)


def data_keys(path: pathlib.Path) -> list[str]:
    """The order keys of a table's data instants."""
    facts = read_timeline(open_table(str(path)))
    completed = completed_in_order(facts.timeline, facts.pending_clusterings)
    return sorted({facts.timeline.order_key(item) for item in completed if facts.is_data(item)})


def omitted(name: str) -> tuple[str, ...]:
    """The columns that are not compared."""
    if name in MULTIPLIED:
        return ("amt",)
    if name in CUT_TIMES:
        return CUT_TIMES[name]
    return ("structs", "opt") if name in (*WITHOUT_NULLS, NULLS_IN_IMAGES) else ()


def check(path: pathlib.Path, begin: str, key: str) -> bool:
    """The rows at `begin` ('': none) and the changes of (begin, key] fold to the rows at `key`. False if either is
    unreadable."""
    if STORED_KINDS.match(path.name):
        return False
    without = omitted(path.name)
    try:
        change_rows = changes_of(path, begin, key)
    except PositionExpired:
        return False
    except READABLE:  # then the state is unreadable, too
        with pytest.raises(READABLE):
            rows_at(path, key)
        return False
    try:
        rows = rows_at(path, key)
        start = rows_at(path, begin) if begin else rows.slice(0, 0)
    except PositionExpired:
        return False
    what = (path.name, begin, key)
    _same(change_rows, start, rows, without, what)
    sequence = change_rows["_change_seq"].to_pylist()
    assert len(set(sequence)) == len(sequence), what
    assert all(text.startswith(instant) for text, instant in _places(path, change_rows)), what
    if len(set(keys_of(rows))) == rows.num_rows:  # with duplicate keys a fold by key is not possible
        assert folded(change_rows, by_key(start, without=without), without=without) == by_key(rows, without=without), (
            what
        )
    own = [name for name in rows.column_names if not name.startswith("_hoodie_") and name not in without]
    chosen = random.Random(str(what)).sample(own, min(2, len(own)))
    projected = changes_of(path, begin, key, columns=(*chosen, "_change_type"))
    assert projected.column_names == [*chosen, "_change_type"]
    _same(projected, start.select(chosen), rows.select(chosen), (), (*what, *chosen))
    return True


def _same(result: pa.Table, start: pa.Table, rows: pa.Table, without: tuple[str, ...], what: object) -> None:
    expected = state_of(rows, without=without)
    expected.subtract(state_of(start, without=without))
    assert balance(result, without=without) == {text: count for text, count in expected.items() if count}, what


def _places(path: pathlib.Path, rows: pa.Table) -> list[tuple[str, str]]:
    """The place of each change, and the order key of its instant."""
    timeline = read_timeline(open_table(str(path))).timeline
    keys = {str(item.requested_time): str(timeline.order_key(item)) for item in timeline.completed_writes}
    instants = rows["_change_instant"].to_pylist()
    return list(zip(rows["_change_seq"].to_pylist(), (keys.get(item, "") for item in instants), strict=True))


def begin_of(name: str, key: str) -> str:
    return COMPACTED_AT if name == BY_COMPACTION and key > COMPACTED_AT else ""


@pytest.mark.long
def test_changes_lead_to_the_newest_state(golden: Golden) -> None:
    """The newest state of half of the golden tables: from the start, or from the first state whose files all exist."""
    compared = 0
    for name in (name for name in golden.names() if zlib.crc32(name.encode()) % 2):
        path = golden.table(name)
        keys = data_keys(path)
        begins = [begin_of(name, keys[-1]), *keys[:-1]] if keys else []
        compared += any(check(path, begin, keys[-1]) for begin in begins)  # the longest range that is not cleaned
    assert compared >= 75


def test_changes_lead_to_any_state(golden: Golden) -> None:
    """A sample of the earlier states."""
    rng = random.Random(20261121)
    names = sorted(golden.names())
    compared = 0
    for name in [*rng.sample(names, 30), *MULTIPLIED, BY_COMPACTION]:
        path = golden.table(name)
        keys = data_keys(path)[:-1]
        if keys:
            key = rng.choice(keys)
            compared += check(path, begin_of(name, key), key)
    assert compared >= 20


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_changes_lead_to_every_state(golden: Golden) -> None:
    compared = sum(
        check(path, begin_of(path.name, key), key)
        for path in map(golden.table, golden.names())
        for key in data_keys(path)
    )
    assert compared >= 700


def check_pieces(path: pathlib.Path) -> bool:
    """The changes commit by commit are those of the whole range, with the same places. False if it is unreadable."""
    keys = data_keys(path)
    try:
        whole = changes_of(path, "", keys[-1])
    except (IndexError, *READABLE):
        return False
    pieces = [changes_of(path, after, upto) for after, upto in zip(["", *keys], keys, strict=False)]
    together, expected = (rows.sort_by("_change_seq") for rows in (pa.concat_tables(pieces), whole))
    assert together.schema == expected.schema, path.name
    assert repr(together.to_pylist()) == repr(expected.to_pylist()), path.name  # a NaN is not equal to itself
    for piece, after, upto in zip(pieces, ["", *keys], keys, strict=False):  # the first may include archived instants
        result = {text.partition(".")[0] for text in piece["_change_seq"].to_pylist()}
        assert all(after < key <= upto for key in result), path.name
    return True


def test_changes_commit_by_commit_are_those_of_the_range(golden: Golden) -> None:
    names = [name for name in golden.names() if "_cdc_" in name or "_ooo_" in name]
    sample = random.Random(7).sample(sorted(set(golden.names()) - set(names)), 12)
    assert sum(check_pieces(golden.table(name)) for name in names + sample) >= 25


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_changes_commit_by_commit_are_those_of_the_range_in_every_table(golden: Golden) -> None:
    assert sum(check_pieces(golden.table(name)) for name in golden.names()) >= 120


@pytest.mark.parametrize("name", MULTIPLIED)
def test_rewrite_multiplied_decimals(golden: Golden, name: str) -> None:
    """The reason why `amt` is omitted in these tables: a commit did not write rows (same sequence number), but then
    they have a hundred times the amount. No other value of such rows differs."""
    multiplied = 0
    before: dict[str, dict[str, Any]] = {}
    for key in data_keys(golden.table(name)):
        try:
            rows = rows_at(golden.table(name), key).to_pylist()
            after = {row["_hoodie_record_key"] + row["_hoodie_commit_seqno"]: row for row in rows}
        except PositionExpired:
            continue
        for place in before.keys() & after.keys():
            old, new = ({**row, "_hoodie_file_name": ""} for row in (before[place], after[place]))
            if old != new:
                assert new == {**old, "amt": old["amt"] * Decimal(100)}
                multiplied += 1
        before = after
    assert multiplied


def differing_columns(golden: Any, name: str, queries: Sequence[str]) -> set[str]:
    """The columns in which Hudi's answers to these queries have different values of a row that one commit wrote."""
    differing: set[str] = set()
    before: dict[str, dict[str, Any]] = {}
    for query in queries:
        rows = golden.expected(name, query).to_pylist()
        after = {row["_hoodie_record_key"] + row["_hoodie_commit_seqno"]: row for row in rows}
        for written in before.keys() & after.keys():
            old, new = ({**row, "_hoodie_file_name": ""} for row in (before[written], after[written]))
            differing |= {column for column in old if old[column] != new[column] and column != "nan"}
        before = after
    return differing


@pytest.mark.parametrize("name", WITHOUT_NULLS)
def test_service_wrote_structs_of_nulls(golden: Any, name: str) -> None:
    """The reason why two columns are omitted in these tables: in Hudi's own answers a row that one commit wrote has a
    null struct before the service, and a struct of nulls after it. No other value of such rows differs."""
    queries = [query["id"] for query in golden.case(name)["queries"] if query["query"] == "time_travel"]
    differing = differing_columns(golden, name, queries)
    assert differing and differing <= {"structs", "opt"}


@pytest.mark.parametrize("name", ["F_orc_far_cow_v9", "F_orc_far_zone_v9", "F_orc_zone_cow_v9", "F_orc_zone_lzo_v9"])
def test_rewrite_cut_times(golden: Any, name: str) -> None:
    """The reason why columns are omitted in this table: in Hudi's own answers only they differ between rows that one
    commit wrote, before and after their file was rewritten."""
    assert differing_columns(golden, name, ["inc_01", "snapshot"]) == set(CUT_TIMES[name])


def test_images_have_whole_times(golden: Any) -> None:
    """The reason why a column is omitted in this table: in Hudi's own answers an update has another value than the row
    that it wrote."""
    name = "F_orc_history_cow323_v9"
    images = (json.loads(text) for text in golden.expected(name, "cdc_07")["after"].to_pylist() if text)
    (image,) = (image for image in images if image and image["id"] == "k13")
    rows = {row["id"]: row for row in golden.expected(name, "time_travel_7").to_pylist()}
    assert image["times"] == {"t": 22_000}
    assert [(key, time.microsecond) for key, time in rows["k13"]["times"]] == [("t", 0)]


def test_images_have_null_structs(golden: Any) -> None:
    """The reason why two columns are omitted in this table: in Hudi's own answers an update has another value than the
    row that it wrote."""
    (image,) = (json.loads(text) for text in golden.expected(NULLS_IN_IMAGES, "cdc_03")["after"].to_pylist())
    rows = {row["id"]: row for row in golden.expected(NULLS_IN_IMAGES, "time_travel_3").to_pylist()}
    assert (image["id"], image["structs"]) == ("k3", [{"z": 14}, None])
    assert rows["k3"]["structs"] == [{"z": 14}, {"z": None}]


def test_compaction_changed_rows(golden: Golden) -> None:
    """The reason why this table's changes restart at its compaction: the states directly before and after it differ,
    and there is no commit between. Two keys returned to writes with a lower ordering value than their row."""
    path = golden.table(BY_COMPACTION)
    keys = data_keys(path)
    last = max(key for key in keys if key < COMPACTED_AT)
    before, after = (rows_at(path, key) for key in (last, COMPACTED_AT))
    assert changes_of(path, last, COMPACTED_AT).num_rows == 0
    old = {row["_hoodie_record_key"]: row["ts"] for row in before.to_pylist()}
    new = {row["_hoodie_record_key"]: row["ts"] for row in after.to_pylist()}
    worse = {key: (old[key], new[key]) for key in old if old[key] != new.get(key)}
    assert worse == {"k1": (20, 5), "k3": (10, 5)}
    assert not Counter(keys_of(before)) - Counter(keys_of(after))


def test_changes_of_a_group_come_in_order(golden: Golden) -> None:
    """Split by split: `_change_seq` ascends, and ordinals count every change."""
    for name in ("B_v9_cdc_mor_op_key_only", "B_v6_cdc_cow_op_key_only", "B_v9_inc_mor", "A_replace_ops_v9_h120"):
        path = golden.table(name)
        plan = plan_request(open_table(str(path)), "t", PlanRequest(table="t", query=Changes(ChangeFormat.ROWS)))
        assert plan.splits
        for split in plan.splits:
            parts = list(read_split(plan.scan, split))
            rows = pa.Table.from_batches([part.batch for part in parts])
            assert is_in_order(rows)
            assert parts[-1].next_ordinal == rows.num_rows
            small = list(read_split(plan.scan, split, start=1, options=ReadOptions(batch_rows=2, compiled=False)))
            assert [row for part in small for row in part.batch.to_pylist()] == rows.slice(1).to_pylist()
