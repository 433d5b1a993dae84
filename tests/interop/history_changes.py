"""Compares change data of a history: Penstock's with Hudi's for each instant, and the sum of all with the snapshot.

Images are compared after parsing, without meta columns; a null field equals a missing one. Rules 5 to 7 of
`hudi_deviations` are here. Where Hudi returns no changes (first writes of inserts and deletes, file groups without a
base file), only the sum is compared. Hudi bounds change data by requested time in every version (golden
B_v9_ooo_cow_cdc), so each instant is read alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.proto.errors import PenstockError
from penstock.table.hudi_table import open_table
from tests.interop.history_actions import PartialUpdate, Race, Write
from tests.interop.hudi_deviations import TIME

SCALES = {"price": 2, "seq": 3}
Change = tuple[str, str, str | None, str | None]


def differences(history_checker: Any, step: Any, written: list[tuple[str, str | None, str]]) -> list[str]:
    """Compares each instant of a step with Hudi's change data, if the table logs changes."""
    shape = history_checker.played_history.history.shape
    has_answer = shape.changes and not shape.duplicates  # of the copies of a key Hudi's changes contain one
    if not has_answer or isinstance(step.action, (Race, PartialUpdate)):
        return []
    problems = []
    for requested, completion, _ in written:
        key = completion or requested
        after = max((other for other in history_checker.order_keys.values() if other < key), default="earliest")
        hudis = _hudis(history_checker, step, requested)
        if hudis is None:
            continue
        try:
            ours = read_changes(history_checker.table, "hudi", after, key)
        except PenstockError as error:
            history_checker.failed(f"changes of {requested}", error)
            continue
        history_checker.compared += 1
        lost = lost_fields(hudis)
        excused = _lost_keys(history_checker, step, requested)
        misread = _misread_bases(history_checker, requested)
        text = _difference(decoded(ours, lost), decoded(hudis, lost), excused, misread)
        if text:
            problems.append(f"after action {history_checker.done}: changes of {requested}, ({after}, {key}]: {text}")
    return problems


def folds(history_checker: Any) -> list[str]:
    """The changes of (earliest, x], folded, are the snapshot at x, for every x. Applied one by one, each change refers
    to a row that exists, and a key has one row at a time."""
    problems: list[str] = []
    if history_checker.is_rewritten:
        return problems
    for state in history_checker.states:
        try:
            changes = read_changes(history_checker.table, "rows", "earliest", state.order_key)
        except PenstockError as error:
            history_checker.failed(f"fold at {state.order_key}", error, may_expire=True)
            continue
        history_checker.compared += 1
        unsettled = history_checker.unsettled(changes)
        left = [name for name in unsettled if name in state.rows.column_names]
        is_unique = not history_checker.played_history.history.shape.duplicates
        text = _fold_difference(changes.drop_columns(unsettled), state.rows.drop_columns(left), is_unique=is_unique)
        if text:
            problems.append(f"fold at {state.order_key}: {text}")
    return problems


def read_changes(table: Any, cdc_format: str, after: str, upto: str) -> pa.Table:
    """Penstock's changes of (after, upto]."""
    options: dict[str, Any] = {"query": "cdc", "after": after, "upto": upto, "cdc_format": cdc_format}
    return penstock.read(str(table), **options).read_all()


def _hudis(history_checker: Any, step: Any, requested: str) -> pa.Table | None:
    begin = max((name for name in step.keys if name < requested), default="000")
    try:
        answer = history_checker.hudi.changes(history_checker.readable, begin, requested)
    except RuntimeError as error:
        answer = step.changes.get(requested)  # rule 7
        if isinstance(answer, pa.Table):
            return answer if history_checker.played_history.history.shape.event_time else None
        history_checker.hudi_failed(f"changes of {requested}", answer or error)
        return None
    return answer


def lost_fields(rows: pa.Table) -> set[str]:
    """Rule 5: decimal fields that Hudi wrote as `{"zero":false}`."""
    images = [_parsed(text) for name in ("before", "after") for text in rows[name].to_pylist()]
    return {name for image in images if image for name, value in image.items() if _is_lost(value)}


def decoded(rows: pa.Table, lost: set[str]) -> Counter[Change]:
    """Changes as (op, instant, before, after), with images as canonical JSON."""
    columns = [rows[name].to_pylist() for name in ("op", "ts_ms", "before", "after")]
    return Counter(
        (op, str(instant), _canonical(_parsed(before), lost), _canonical(_parsed(after), lost))
        for op, instant, before, after in zip(*columns, strict=True)
    )


def _difference(
    ours: Counter[Change], hudis: Counter[Change], lost: set[str], misread: tuple[set[str], set[str]]
) -> str:
    emptied, carried = misread
    missing = _without(hudis - ours, lambda op, keys: bool(keys & lost) or (op == "i" and bool(keys & carried)))
    unexpected = _without(ours - hudis, lambda op, keys: bool(keys & lost) or (op == "d" and bool(keys & emptied)))
    if not missing and not unexpected:
        return ""
    return f"missing {list(missing.elements())[:3]} unexpected {list(unexpected.elements())[:3]}"


def _without(changes: Counter[Change], excused: Callable[[str, set[str]], bool]) -> Counter[Change]:
    return Counter({change: count for change, count in changes.items() if not excused(change[0], _keys(change))})


def _lost_keys(history_checker: Any, step: Any, requested: str) -> set[str]:
    """Rule 6: keys that the action wrote but whose row has another writer, or that it deleted but that exist.

    Hudi derives the change from the log record without the row beneath it; the fold checks Penstock's change.
    """
    shape = history_checker.played_history.history.shape
    if not (shape.merge_on_read and shape.event_time and isinstance(step.action, Write)):
        return set()
    snapshot = history_checker.newest_rows
    there = set(snapshot["id"].to_pylist())
    won = {
        key
        for key, time in zip(*(snapshot[name].to_pylist() for name in ("id", TIME)), strict=True)
        if time == requested
    }
    deletes = step.action.operation == "delete"
    deleted = {row.key for row in step.action.rows if row.is_deleted or deletes}
    return (deleted & there) | ({row.key for row in step.action.rows} - deleted - won)


def _misread_bases(history_checker: Any, requested: str) -> tuple[set[str], set[str]]:
    """Rule 6: keys in base files without a change log that Hudi treats as the first files of their groups.

    First those of files that the instant emptied: Hudi misses all their deletes. Then those that a file carries over
    together with as many inserts as it has rows (a flagged row counts as one): Hudi returns them as inserts too.
    """
    table = open_table(str(history_checker.table))
    instant = next(item for item in table.timeline().completed_writes if item.requested_time == requested)
    emptied: set[str] = set()
    carried: set[str] = set()
    for stat in table.commit(instant).stats:
        folder = history_checker.table / stat.partition
        is_logged = any(folder.glob(f".{stat.file_id}_{requested}.log.*.cdc"))
        if not stat.path.endswith(".parquet") or is_logged:
            continue
        keys = emptied if not stat.num_writes else carried if stat.num_writes == stat.num_inserts else set()
        for file in folder.glob(f"{stat.file_id}_*_{stat.prev_commit}.parquet"):
            keys.update(pq.read_table(file, columns=["id"])["id"].to_pylist())
    return emptied, carried


def _keys(change: Change) -> set[str]:
    return {_key(image) for image in change[2:] if image}


def _key(image: str | None) -> str:
    return str(json.loads(image).get("id", "")) if image else ""


def _parsed(text: str | None) -> dict[str, Any] | None:
    image = json.loads(text, parse_float=Decimal) if isinstance(text, str) else None
    return image if isinstance(image, dict) else None


def _is_lost(value: Any) -> bool:
    return isinstance(value, dict) and (set(value) == {"zero"} or "baseObject" in value)


def _canonical(image: dict[str, Any] | None, lost: set[str]) -> str | None:
    if image is None:
        return None
    fields = {
        name: _number(name, value)
        for name, value in image.items()
        if name not in lost and (not name.startswith("_hoodie_") or name == "_hoodie_is_deleted")
    }
    return json.dumps(_without_nulls(fields), sort_keys=True, default=_decimal_text)


def _number(name: str, value: Any) -> Any:
    """A decimal that is written as its bytes."""
    if name in SCALES and isinstance(value, list):
        unscaled = int.from_bytes(bytes(byte & 0xFF for byte in value), "big", signed=True)
        return Decimal(unscaled).scaleb(-SCALES[name])
    if name in SCALES and isinstance(value, (int, Decimal)):
        return Decimal(value)
    return value


def _decimal_text(value: object) -> str:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
        case list():
            return [_without_nulls(inner) for inner in value]
        case _:
            return value


def _fold_difference(changes: pa.Table, rows: pa.Table, *, is_unique: bool = True) -> str:
    """`is_unique`: no key of a partition has two rows at any time."""
    names = sorted(name for name in changes.column_names if not name.startswith(("_hoodie_", "_change_")))
    order = [_sequence(value) for value in changes["_change_seq"].to_pylist()]
    kinds, values = changes["_change_type"].to_pylist(), _values(changes, names)
    held: Counter[str] = Counter()
    of_key: Counter[Any] = Counter()
    keys = list(zip(*(changes[name].to_pylist() for name in ("_hoodie_partition_path", "id")), strict=True))
    for number in sorted(range(len(order)), key=order.__getitem__):
        key = keys[number]
        if kinds[number] in ("+I", "+U"):
            held[values[number]] += 1
            of_key[key] += 1
            if is_unique and of_key[key] > 1:
                return f"{kinds[number]} of a row whose key is there: {values[number]}"
            continue
        if not held[values[number]]:
            return f"{kinds[number]} of a row that is not there: {values[number]}"
        held[values[number]] -= 1
        of_key[key] -= 1
    held, expected = +held, Counter(_values(rows, names))
    if held == expected:
        return ""
    missing, unexpected = list((expected - held).elements()), list((held - expected).elements())
    return f"missing {missing[:2]} unexpected {unexpected[:2]}"


def _values(rows: pa.Table, names: list[str]) -> list[str]:
    """Rows as text; a column that was added later is null."""
    columns = [
        [_settled(value) for value in rows[name].to_pylist()] if name in rows.column_names else [None] * rows.num_rows
        for name in names
    ]
    return [repr(row) for row in zip(*columns, strict=True)]


def _settled(value: Any) -> Any:
    """The entries of a map, sorted, because Hudi does not keep their order."""
    is_map = isinstance(value, list) and value and all(isinstance(item, tuple) for item in value)
    return sorted(value, key=str) if is_map else value


def _sequence(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else value
