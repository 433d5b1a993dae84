"""Compares reads by record key with the filtered full read: no pruned file group may hold a row of the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.planning.plan import pruned_plan
from penstock.enumerator.planning.pruning.pruned_plan import PrunedPlan, Reason
from penstock.proto.model.queries import PlanRequest, Query
from penstock.reader.read_split import read_split
from penstock.table.hudi_table import HudiTable

_SINGLES: Final = 3
"""About so many keys of a table are read alone."""

Rows = list[tuple[str, str]]
"""(record key, row as text), sorted."""


@dataclass
class KeyReads:
    """The reads by key of a table in one state."""

    groups: int = 0
    """The file groups of a full read."""
    excluded: Counter[str] = field(default_factory=Counter)
    """Reason -> file groups that it excluded, over all reads."""
    unused: set[str] = field(default_factory=set)
    """Why a reason was not used."""
    wrong: list[str] = field(default_factory=list)
    """The filters whose rows are not those of the full read."""


def rows_of(pruned: PrunedPlan) -> Rows:
    """The rows of a plan."""
    parts = (part.batch for split in pruned.plan.splits for part in read_split(pruned.plan.scan, split))
    rows = (row for batch in parts for row in batch.to_pylist())
    return sorted((row["_hoodie_record_key"], repr(row)) for row in rows)


def reads_by_key(table: HudiTable, query: Query, absent: Iterable[str], key_column: str = "") -> KeyReads:
    """Reads some keys of the table, `absent` keys, and lists of all, by the meta column; a third of the single keys and
    all lists by `key_column`, the column that is the key."""
    whole = pruned_plan(table, "t", PlanRequest(table="t", query=query))
    everything = rows_of(whole)
    reads = KeyReads(groups=len(whole.plan.splits))
    keys = sorted({key for key, _ in everything} | set(absent))
    singles = sorted({*keys[:: max(1, len(keys) // _SINGLES)], *absent})
    lists = [tuple(keys[:3]), tuple(keys[1::4]), tuple(keys)]
    reads_of = {"_hoodie_record_key": singles} | ({key_column: singles[::3]} if key_column else {})
    for column, alone in reads_of.items():
        for some in filter(None, [*((key,) for key in alone), *lists]):
            where = f"{column} IN ({', '.join(map(_quoted, some))})"
            read = pruned_plan(table, "t", PlanRequest(table="t", query=query, where=where, record_index=True))
            if rows_of(read) != [row for row in everything if row[0] in some]:
                reads.wrong.append(where)
            for item in read.ruled_out:
                reads.excluded[item.reason] += len(item.splits)
                if item.unused:
                    reads.unused.add(item.unused)
    return reads


def check(reads: KeyReads, reason: Reason) -> None:
    """No row is missing, and the reason excluded groups."""
    assert not reads.wrong and reads.excluded[reason] > 0, (reads.wrong[:3], reads.excluded, reads.unused)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
