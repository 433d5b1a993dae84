"""A model of a table with its cleaner and archive: the plans of queries, and the rows that each range must return."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection

from penstock.enumerator.planning.archived_timeline import checked_against, needs_every_partition, with_archive
from penstock.enumerator.planning.commit_order import completed_in_order
from penstock.enumerator.planning.discovery import _written_groups as written_groups
from penstock.enumerator.planning.file_inventory import CleanedFile, files_of_groups
from penstock.enumerator.planning.scan import bind_request
from penstock.enumerator.planning.selection import TimelineFacts, reaches_back, select
from penstock.enumerator.planning.slice_planner import plan_splits
from penstock.enumerator.planning.table_state import TableSchema, TableState
from penstock.proto.errors import PositionExpired
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import PlanRequest, Query
from penstock.proto.model.splits import FileRef, Plan, RowsOf, Split
from penstock.table.config.properties import parse_table_properties
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.files.slices import CommittedInstants, DataFile
from penstock.table.timeline.active import build_timeline
from penstock.table.timeline.archive import Archive
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import State, instant_file_name, parse_instant_file
from tests.unit.enumerator.planning.model_writers import Done, GrownTable, Token, text

SCHEMA = TableSchema.parse(
    json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "_hoodie_commit_time", "type": "string"}, {"name": "v", "type": "long"}],
        }
    ),
    "model",
)


def listed_file(partition: str, name: str, size_bytes: int) -> DataFile:
    """A data file as a listing returns it."""
    parsed = parse_file_name(name)
    assert parsed is not None
    return DataFile(partition=partition, ref=FileRef(f"{partition}/{name}", size_bytes), name=parsed, listed=True)


class ModelTable(GrownTable):
    """A grown table whose instants are archived and whose files are cleaned."""

    def __init__(self, layout: int, dice: random.Random, stamping: bool = False) -> None:
        super().__init__(layout, dice, stamping)
        self.archived_instants = 0
        self.lost_instants = 0  # the oldest of them that is no longer in the archive

    def facts(self, *, whole: bool = False) -> TimelineFacts:
        """The facts of the active timeline; with `whole`, of the archive too."""
        active = self._facts(self.instants[len(self.archived) :], bool(self.archived))
        if not whole:
            return active
        old = self._facts(self.archived[self.lost_instants :], archives=False)
        return with_archive(active, Archive(old.timeline.completed_writes, old.commits, ()))

    def _facts(self, instants: list[Done], archives: bool) -> TimelineFacts:
        names = []
        commits: dict[str, CommitMetadata] = {}
        for done in instants:
            state = State.REQUESTED if done.completed is None else State.COMPLETED
            completion = text(done.completed) if done.completed is not None else None
            names.append(instant_file_name(text(done.requested), done.action, state, completion, self.layout))
            if done.completed is not None:
                commits[text(done.requested)] = CommitMetadata(
                    requested_time=InstantTime(text(done.requested)), operation=done.operation,
                    compacted=done.operation == "COMPACT", schema_json="", extra={}, stats=tuple(done.stats),
                    replaced=tuple(sorted(done.replaced)),
                )  # fmt: skip
        parsed = [parse_instant_file(name, self.layout) for name in names]
        timeline = build_timeline(self.layout, [item for item in parsed if item])
        complete_from = ""
        if archives:
            complete_from = text(max(map(self.order_key, self.archived))) if self.layout == 2 else timeline.first_active
        return TimelineFacts(
            table="model", timeline=timeline, commits=commits, pending_clusterings=frozenset(),
            complete_from=complete_from,
        )  # fmt: skip

    @property
    def archived(self) -> list[Done]:
        """The instants that left the active timeline: always the oldest, never a pending one."""
        return self.instants[: self.archived_instants]

    def archive(self, instants: int) -> None:
        """Archives up to so many instants, by requested time; keeps one."""
        self.instants.sort(key=lambda done: done.requested)
        pending = (number for number, done in enumerate(self.instants) if done.completed is None)
        self.archived_instants = max(0, min(instants, next(pending, len(self.instants)), len(self.instants) - 1))

    def cleanable(self, up_to: int) -> tuple[str, ...]:
        """Files that completed instants requested up to `up_to` superseded, and every file of the groups that archived
        ones replaced: archival waits for that."""
        by = {d.requested for d in self.instants if d.completed is not None and d.requested <= up_to}
        ended = {file_id for done in self.archived for _, file_id in done.replaced}
        return tuple(
            path
            for path, file in self.files.items()
            if file.superseded_at in by or path[2:].lstrip(".").partition("_")[0] in ended
        )

    def state(self, query: Query, cleaned: tuple[str, ...] = (), cleans_known: bool = True) -> TableState:
        facts = self.facts()
        if reaches_back(query, facts):
            facts = self.facts(whole=True)
        selections = select(query, facts)
        selected: set[tuple[str, str]] | None = set()
        for selection in selections:
            selected = None if selected is None or selection.groups is None else selected | set(selection.groups)
        if selected is not None and self.stamping:
            selected |= written_groups(facts, selections, {"p"})
        listed = [listed_file("p", path[2:], 10) for path in self.files if path not in cleaned]
        created = {"p": min((text(done.requested) for done in self.instants if done.stats), default="999999")}
        facts = checked_against(facts, {"p": listed}, created if needs_every_partition(query, facts) else {}, query)
        removed = [CleanedFile("p", path[2:], "999999") for path in cleaned] if cleans_known else []
        pending = {
            ("p", file_id): frozenset({text(done.requested)})
            for done in self.instants
            if done.completed is None
            for file_id in done.compacts
        }
        version = 9 if self.layout == 2 else 6
        return TableState(
            table="model",
            properties=parse_table_properties(
                f"hoodie.table.name=model\nhoodie.table.version={version}\nhoodie.table.type=MERGE_ON_READ\n"
                "hoodie.record.merge.mode=COMMIT_TIME_ORDERING".encode(),
                "model",
            ),
            facts=facts,
            selections=selections,
            committed=CommittedInstants(
                layout=self.layout,
                order_keys={
                    text(d.requested): text(self.order_key(d)) for d in self.instants if d.completed is not None
                },
                archived_before=facts.timeline.first_active,
            ),
            files=files_of_groups(facts, {"p": listed}, removed, selected),
            cleaned={file.path: file.cleaned_by for file in removed},
            pending_compactions=pending,
            schema=SCHEMA,
            request=bind_request(PlanRequest(table="model", query=query), SCHEMA, SCHEMA.arrow),
        )

    def tokens(self, plan: Plan, cleaned: Collection[str] = ()) -> list[Token]:
        """The tokens that a reader returns: base rows, visible blocks, then the row filter."""
        return [token for split in plan.splits for token in self._of_split(plan, split, cleaned)]

    def _of_split(self, plan: Plan, split: Split, cleaned: Collection[str]) -> list[Token]:
        result: list[Token] = []
        stamps = self.files[split.base.path].stamps if split.base else {}
        for file in (*((split.base,) if split.base else ()), *split.logs):
            assert file.path not in cleaned
            tokens = self.files[file.path].tokens
            name = parse_file_name(file.path[2:])
            if isinstance(name, LogName):
                tokens = frozenset(t for t in tokens if plan.scan.visible.holds(text(t[0])))
            result += tokens
        return [token for token in result if self._is_visible(token, stamps.get(token), plan, split, cleaned)]

    def _is_visible(self, token: Token, stamp: int | None, plan: Plan, split: Split, cleaned: Collection[str]) -> bool:
        """The row filter; rows that a service stamped by the split's ancestry."""
        rows = plan.scan.rows
        if not isinstance(rows, RowsOf):
            return True
        instant = InstantTime(text(token[0] if stamp is None else stamp))
        if instant not in rows.log_compactions:
            return instant in rows.instants
        assert split.ancestry is not None
        if instant in split.ancestry.inside or instant in split.ancestry.outside:
            return instant in split.ancestry.inside
        for origin in split.ancestry.origins:
            if origin.service == instant:
                return any(token in self._of_split(plan, part, cleaned) for part in origin.slices)
        raise PositionExpired("who wrote it was cleaned")

    def expected(self, upto: int | None, after: int = 0) -> Counter[Token]:
        """Tokens of data instants in (after, upto] that no overwriting instant up to `upto` ended, each once."""
        keys = {
            d.requested: (self.order_key(d), d.stats)
            for d in self.instants
            if d.completed is not None and d.operation in ("UPSERT", "INSERT_OVERWRITE")
        }
        visible = {
            (instant, stat.file_id)
            for instant, (key, stats) in keys.items()
            if upto is None or key <= upto
            for stat in stats
        }
        for key, removed in self.ended.values():
            if upto is None or key <= upto:
                visible -= removed
        return Counter({token: 1 for token in visible if keys[token[0]][0] > after})

    def plan(self, query: Query, **more: object) -> Plan:
        return plan_splits(self.state(query, **more)).plan  # type: ignore[arg-type]

    def keys(self) -> list[int]:
        facts = self.facts()
        return [int(facts.timeline.order_key(i)) for i in completed_in_order(facts.timeline, ())]


def position(tick: int) -> Position:
    return Position(InstantTime(text(tick))) if tick else EARLIEST
