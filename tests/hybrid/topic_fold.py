"""The expected result of a hybrid stream: the topic folded by key, row by row, and the boundary between table and
topic.

The definitions never import `penstock`. `topic_records` supplies records, `hybrid_harness` delivers rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.hybrid.topic_records import COLUMNS, Record, Row

_TS: Final = COLUMNS.index("ts")
_N: Final = COLUMNS.index("n")

Offsets = Mapping[int, int]
"""The next offset to read by partition."""


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a hybrid changelog; `row` None: the key is deleted."""

    kind: str
    sequence: str
    is_of_lake: bool
    key: str
    row: Row | None


def fold(steps: Iterable[tuple[str, Row | None]]) -> dict[str, Row]:
    """The rows after all steps (key, row or None for a delete): the highest `ts` of a key wins, among equal ones the
    later."""
    state: dict[str, Row] = {}
    for key, row in steps:
        if row is None:
            state.pop(key, None)
        elif key not in state or row[_TS] >= state[key][_TS]:
            state[key] = row
    return state


def fold_topic(records: Iterable[Record]) -> dict[str, Row]:
    """The fold of the topic. The records of a key are in one partition, so the order by partition is their order."""
    return fold((record.key, record.row()) for record in records)


def fold_changes(changes: Iterable[Change]) -> dict[str, Row]:
    """The fold in the order of sequence numbers."""
    ordered = sorted(changes, key=lambda change: change.sequence)
    return fold((change.key, change.row) for change in ordered)


def append_problems(delivered: Iterable[Row], records: Sequence[Record]) -> Iterator[str]:
    """Checks that every record with a value is one equal row. Problems name (partition, offset)."""
    expected = {row[_N]: (row, _position(record)) for record in records if (row := record.row()) is not None}
    actual: dict[int, list[Row]] = defaultdict(list)
    for row in delivered:
        actual[row[_N]].append(row)
    mismatches = [(expected[n], rows[0]) for n, rows in actual.items() if n in expected and expected[n][0] != rows[0]]
    yield from _problem("records are lost", sorted(place for n, (_, place) in expected.items() if n not in actual))
    yield from _problem("records were repeated", sorted(expected[n][1] for n, rows in actual.items() if len(rows) > 1))
    yield from _problem("rows are of no record", sorted(n for n in actual if n not in expected))
    yield from _problem("rows differ from their record", mismatches)


def change_problems(
    changes: Sequence[Change], records: Sequence[Record], hand_overs: Sequence[Offsets]
) -> Iterator[str]:
    """Checks that the fold of the changes is the fold of the topic, and that a hand-over point exists: the rows of the
    lake are the fold of all records below it, the others are the records from it on, each once, ordered by offset."""
    expected, actual = fold_topic(records), fold_changes(changes)
    yield from _problem("keys differ in the fold", _differing(expected, actual))
    seams = [list(_seam_problems(changes, records, offsets)) for offsets in hand_overs]
    if not seams:
        yield "nothing was handed over"
    elif all(seams):
        nearest = min(seams, key=len)
        yield from (f"{text} (hand-over {hand_overs[seams.index(nearest)]})" for text in nearest)


def _seam_problems(changes: Sequence[Change], records: Sequence[Record], offsets: Offsets) -> Iterator[str]:
    below = [record for record in records if record.offset < offsets.get(record.partition, 0)]
    after = [record for record in records if record.offset >= offsets.get(record.partition, 0)]
    lake = [change for change in changes if change.is_of_lake]
    topic = sorted((change for change in changes if not change.is_of_lake), key=lambda change: change.sequence)
    yield from _problem("rows of the lake are no inserts", [change for change in lake if change.kind != "+I"])
    yield from _problem("keys are repeated in the lake", _doubled(change.key for change in lake))
    rows = {change.key: change.row for change in lake if change.row is not None}
    yield from _problem("keys differ in the lake", _differing(fold_topic(below), rows))
    steps: dict[str, list[tuple[str, Row | None]]] = defaultdict(list)
    for record in after:
        row = record.row()
        steps[record.key].append(("-D" if row is None else "+U", row))
    arrived: dict[str, list[tuple[str, Row | None]]] = defaultdict(list)
    for change in topic:
        arrived[change.key].append((change.kind, change.row))
    mismatches = [
        (key, steps[key], arrived[key]) for key in sorted(steps.keys() | arrived.keys()) if steps[key] != arrived[key]
    ]
    yield from _problem("keys have other changes after the lake", mismatches)
    places = {row[_N]: _position(record) for record in after if (row := record.row()) is not None}
    ordered: dict[int, list[int]] = defaultdict(list)
    for change in topic:
        if change.row is not None and change.row[_N] in places:
            partition, offset = places[change.row[_N]]
            ordered[partition].append(offset)
    yield from _problem(
        "partitions are out of order",
        [p for p, offsets_seen in ordered.items() if offsets_seen != sorted(offsets_seen)],
    )


def _position(record: Record) -> tuple[int, int]:
    return record.partition, record.offset


def _differing(expected: Mapping[str, Row], actual: Mapping[str, Row]) -> list[object]:
    keys = sorted(expected.keys() | actual.keys())
    return [(key, expected.get(key), actual.get(key)) for key in keys if expected.get(key) != actual.get(key)]


def _doubled(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def _problem(what: str, cases: Sequence[object]) -> Iterator[str]:
    """One line for the cases; nothing if there are none."""
    if cases:
        yield f"{len(cases)} {what}: {list(cases[:6])}"
