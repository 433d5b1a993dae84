"""The merge of one file slice in which records fill each other's gaps, record by record.

`lacks(record, column)` identifies a gap. A row is a dict. `merge` has the rules of winners and deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.oracle.merge import DATA, DELETE, Record, above

META = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_partition_path", "_hoodie_file_name")


@dataclass(frozen=True)
class Rules:
    """event_time: whether event times decide; otherwise the later record wins. from_newer: a newer record that loses
    fills gaps of the winner. last_writer: meta columns come from the record written last. is_gap(row, column): the
    value is to be filled."""

    event_time: bool
    from_newer: bool
    last_writer: bool
    is_gap: Callable[[Mapping[str, Any], str], bool]

    def filled(self, high: Mapping[str, Any], low: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
        """The higher row, with its gaps filled from the lower; a column that neither has is omitted."""
        row: dict[str, Any] = {}
        for column in columns:
            source = low if self.is_gap(high, column) else high
            if column in source:
                row[column] = source[column]
        return row

    def pair(
        self, old: Mapping[str, Any], new: Mapping[str, Any], old_wins: bool, columns: Sequence[str]
    ) -> dict[str, Any] | None:
        """Two data rows as one; None if the older stays as it is."""
        if not old_wins:
            return self.filled(new, old, columns)
        if not self.from_newer:
            return None
        row = self.filled(old, new, columns)
        return {**row, **{name: new[name] for name in META if name in new}} if self.last_writer else row


def merged_rows(
    groups: Sequence[Sequence[dict[str, Any]]],
    records: Sequence[Record],
    rules: Rules,
    columns: Sequence[str],
    key_of: Callable[[Mapping[str, Any]], Hashable],
    ordering_of: Callable[[Mapping[str, Any]], Any],
    early: tuple[Rules, int] | None = None,
) -> list[dict[str, Any]]:
    """Merged rows in output order; columns that no record has are None. `early`: other rules for the merges among the
    first records."""
    standing: dict[Hashable, tuple[int, Record]] = {}
    for place, new in enumerate(records):
        known = standing.get(new.key)
        if known is None:
            standing[new.key] = (place, new)
        else:
            met_by = early[0] if early is not None and place < early[1] else rules
            standing[new.key] = _met(known, (place, new), met_by, columns)
    merged: list[dict[str, Any]] = []
    for group in groups:
        come: list[tuple[int, dict[str, Any]]] = []
        for row in group:
            previous = standing.pop(key_of(row), None)
            if previous is None:
                merged.append(row)
                continue
            place, record = previous
            stays = rules.event_time and not record.is_commit_time_delete and above(ordering_of(row), record.ordering)
            if record.what == DELETE:
                merged += [row] if stays else []
                continue
            both = rules.pair(row, record.row, stays, columns)
            if both is None:
                merged.append(row)
            else:
                come.append((place, both))
        merged += [row for _, row in sorted(come, key=lambda entry: entry[0])]
    merged += [record.row for _, record in sorted(standing.values(), key=lambda f: f[0]) if record.what == DATA]
    return [{column: row.get(column) for column in columns} for row in merged]


def _met(
    known: tuple[int, Record], new: tuple[int, Record], rules: Rules, columns: Sequence[str]
) -> tuple[int, Record]:
    """The result of a record and the current one, with the position of the winner."""
    old_record, new_record = known[1], new[1]
    if new_record.what == DELETE:
        remaining = not new_record.is_commit_time_delete and (
            old_record.is_commit_time_delete or (rules.event_time and above(old_record.ordering, new_record.ordering))
        )
        return known if remaining and (rules.event_time or old_record.what == DELETE) else new
    if old_record.what == DELETE:
        loses = rules.event_time and not old_record.is_commit_time_delete
        return known if loses and above(old_record.ordering, new_record.ordering) else new
    old_wins = rules.event_time and above(old_record.ordering, new_record.ordering)
    row = rules.pair(old_record.row, new_record.row, old_wins, columns)
    if row is None:
        return known
    return (known[0], replace(old_record, row=row)) if old_wins else (new[0], replace(new_record, row=row))
