"""Cores of a group over tables with one defect each. The simulation must detect each defect by its invariant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle, over_tables
from penstock.enumerator.core import state as core_state
from penstock.enumerator.core.records import GroupCreated
from penstock.enumerator.core.results import Decision
from penstock.enumerator.core.state import Group, Reader, State
from penstock.enumerator.groups import aligned_groups
from penstock.enumerator.streams import alignment
from tests.simulation import tables_world
from tests.simulation.broken_functions import choose_any, decodes_another, keeps_undelivered, loses_watermarks
from tests.simulation.tables_alignment import UNLIMITED

in_turn, add, choose, granted = over_tables._in_turn, over_tables.add, over_tables.choose, over_tables.granted
discovered = group_lifecycle.discovered
TABLES, LIFECYCLE, ALIGNED = over_tables, group_lifecycle, aligned_groups


@dataclass(frozen=True, slots=True)
class Broken:
    """A function of the core that is replaced, and the invariant that detects it."""

    name: str
    invariant: str
    target: object
    attribute: str
    value: Any


def by_name(state: State, whole: Group, reader: Reader, event: ev.RequestSplits) -> list[Group]:
    """The tables in the order of their names: the first one is always served first."""
    return sorted(in_turn(state, whole, reader, event), key=lambda group: group.key)


def none_of_them(*of: Any) -> Iterator[Any]:
    """Nothing happens in the groups of tables."""
    yield from ()


def at_newest(state: State, event: ev.AddTables, settings: Any) -> Any:
    """A table that appears later starts at its newest instant, as the first ones do."""
    decision = add(state, event, settings)
    records = [replace(record, at_newest=True) for record in decision.records if isinstance(record, GroupCreated)]
    return Decision(tuple(records), decision.answer)


def without_snapshot(state: State, event: ev.AddTables, settings: Any) -> Any:
    """A table that appears later does not start with a snapshot, as the first ones do."""
    decision = add(state, event, settings)
    records = [replace(record, at_snapshot=False) for record in decision.records if isinstance(record, GroupCreated)]
    return Decision(tuple(records), decision.answer)


def past_snapshot(state: State, event: Any, now_ms: int) -> Any:
    """The first round of a snapshot moves the group past all of it."""
    snapshot = event.progress.snapshot if isinstance(event, ev.Discovered) else None
    if snapshot is not None:
        event = replace(event, progress=Progress(snapshot.at))
    return discovered(state, event, now_ms)


def high_with_split(group: Group, splits: Any, epoch: int = 0) -> Any:
    """A split has the highest event time of its table, not the watermark."""
    return tuple(replace(one, watermark_us=group.watermark.high_us) for one in granted(group, splits, epoch))


def highest_of(tables: Iterable[Group]) -> int | None:
    """The highest watermark of the tables."""
    marks = (group.watermark.at_us for group in tables)
    return max((at_us for at_us in marks if at_us is not None), default=None)


def without_ceiling(group: Group, reader: Reader, most: int, ceiling: Any = None) -> Any:
    """Splits are assigned whatever other tables are at."""
    return choose(group, reader, most, UNLIMITED)


def slowest_waits(group: Group, reader: Reader, most: int, ceiling: Any = None) -> Any:
    """The slowest table is bound by its ceiling too."""
    return choose(group, reader, most, None if ceiling is None else replace(ceiling, is_lowest=False))


def as_before(state: State, event: Any, decision: Any) -> Any:
    """Nothing is added to the decision."""
    return decision


def no_table(state: State, whole: Group, reader: Reader, event: ev.RequestSplits) -> list[Group]:
    """No table is considered."""
    return []


def always(*of: Any) -> bool:
    """Yes."""
    return True


def never(*of: Any) -> bool:
    """No."""
    return False


BROKEN = (
    Broken("the first name is always first", "starved", TABLES, "_in_turn", by_name),
    Broken("heartbeats do not reach the tables", "lease", TABLES, "leases", none_of_them),
    Broken("a repeated request is answered anew", "liveness", TABLES, "_answered", none_of_them),
    Broken("a member that joins again keeps its epochs", "epochs", TABLES, "joined", as_before),
    Broken("a reader that left keeps its splits", "left", TABLES, "departures", none_of_them),
    Broken("a late table starts at its newest instant", "position", TABLES, "add", at_newest),
    Broken("a late table starts without its snapshot", "snapshot", TABLES, "add", without_snapshot),
    Broken("the rest of a snapshot is skipped", "exactly once", LIFECYCLE, "discovered", past_snapshot),
    Broken("tables with an error stop the rest", "liveness", TABLES, "_in_turn", no_table),
    Broken("a split has the highest event time as watermark", "watermark", TABLES, "granted", high_with_split),
    Broken("the group has its highest watermark", "watermark", TABLES, "watermark_of", highest_of),
    Broken("a table does not wait", "aligned", TABLES, "choose", without_ceiling),
    Broken("the slowest table waits", "held", TABLES, "choose", slowest_waits),
    Broken("idle tables hold back the others", "liveness", alignment, "is_active", always),
    Broken("no table holds back the others", "aligned", alignment, "is_active", never),
    Broken("a table that waits counts as idle", "aligned", ALIGNED, "withheld", never),
    Broken("file groups in no order", "order", TABLES, "choose", choose_any),
    Broken("split never delivered", "answer", core_state, "_assign", keeps_undelivered),
    Broken("record decoded as another", "codec", tables_world, "decode_record", decodes_another),
    Broken("compaction loses watermarks", "replay", tables_world, "compacted_records", loses_watermarks),
)
