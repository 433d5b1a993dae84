"""A table as one discovery found it: the planner's whole input beside the request. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.enumerator.planning.selection import Selection, TimelineFacts
from penstock.proto.model.positions import InstantTime
from penstock.table.config.properties import TableProperties
from penstock.table.files.slices import CommittedInstants, DataFile, GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A table as one discovery found it, for one request; planning adds nothing but decisions.

    `selections` are alternatives in order of preference. `files` are those of the selected groups: the folders'
    listing, what metadata of active commits names, what active cleans removed. `cleaned` maps a removed file's path to
    the clean instant. `pending_compactions` are the requested times of the plans that name a group.
    `pruned` are partitions that the request's filter ruled out before they were listed: no group of theirs is read.
    `metadata_usable` False: the metadata table was tried and passed over. `schema_history` is the schema-on-read
    history that `schema_json` belongs to, '' without one. `storing_operations` are the instants of a range of changes
    whose files have the column `_hoodie_operation`, if the schema has it.
    """

    table: str
    properties: TableProperties
    facts: TimelineFacts
    selections: tuple[Selection, ...]
    committed: CommittedInstants
    files: tuple[DataFile, ...]
    cleaned: Mapping[str, str]
    pending_compactions: Mapping[GroupId, frozenset[str]]
    schema_json: str
    metadata_usable: bool = True
    schema_history: str = ""
    pruned: frozenset[str] = frozenset()
    storing_operations: frozenset[InstantTime] = frozenset()
