"""Restores to a savepoint: plans, decoded and encoded, and the metadata of completed ones, encoded. Pure.

Source: Hudi `HoodieRestorePlan`, `HoodieRestoreMetadata`. Avro on both layouts. `plans` decodes completed restores.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.commits import decode_metadata
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.metadata_schemas.restores import RESTORE, RESTORE_PLAN
from penstock.table.timeline.services.rollback_encoder import CompletedRollback, rollback_record

_INSTANT: Final = re.compile(r"[0-9]{1,24}")
_PLAN_VERSION: Final = 2
"""The version of plans that name their savepoint (Hudi `RestorePlanActionExecutor`)."""


@dataclass(frozen=True, slots=True)
class RemovedInstant:
    """An instant that a restore removes."""

    requested_time: str
    """Its requested time."""
    action: Action
    """Its action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """A planned restore."""

    savepoint: str
    """Requested time of the savepoint; '' in plans of Hudi before 0.14."""
    removed: tuple[RemovedInstant, ...]
    """The instants that it removes, in this order."""


def encode_restore_plan(plan: RestorePlan) -> bytes:
    """The requested file of a restore: the inverse of `parse_restore_plan`."""
    return encode_container(
        RESTORE_PLAN,
        {
            "instantsToRollback": [_info(item) for item in plan.removed],
            "version": _PLAN_VERSION,
            "savepointToRestoreTimestamp": plan.savepoint or None,
        },
    )


def parse_restore_plan(data: bytes, instant: Instant, table: str = "") -> RestorePlan:
    """Decodes the requested file of a restore. CorruptFile for bytes that are not a complete plan: whoever carries it
    out removes its instants."""
    fields = decode_metadata(data, instant, table)
    removed = tuple(_parse_info(record) for record in fields.records("instantsToRollback"))
    savepoint = fields.text("savepointToRestoreTimestamp")
    if savepoint and not _INSTANT.fullmatch(savepoint):
        raise CorruptFile(f"{fields.where}: got the savepoint {savepoint[:40]!r}, expected an instant")
    return RestorePlan(savepoint=savepoint, removed=removed)


def encode_restore(
    instant: str, plan: RestorePlan, rollbacks: Sequence[CompletedRollback], took_ms: int, base_path: str
) -> bytes:
    """The completed file of a restore; `parse_rollback` decodes its instants.

    instant: requested time of the restore. rollbacks: those that this process carried out; a restore that another
    process began lacks the earlier ones, as in Hudi. took_ms: milliseconds that it took.
    """
    return encode_container(
        RESTORE,
        {
            "startRestoreTime": instant,
            "timeTakenInMillis": took_ms,
            "instantsToRollback": [item.requested_time for item in plan.removed],
            "hoodieRestoreMetadata": {item.target: [rollback_record(item, base_path)] for item in rollbacks},
            "version": 1,
            "restoreInstantInfo": [_info(item) for item in plan.removed],
        },
    )


def _info(item: RemovedInstant) -> dict[str, object]:
    return {"commitTime": item.requested_time, "action": str(item.action)}


def _parse_info(record: Fields) -> RemovedInstant:
    time, action = record.required_text("commitTime"), record.required_text("action")
    if not _INSTANT.fullmatch(time) or action not in set(Action):
        raise CorruptFile(f"{record.where}: got {action[:40]!r} {time[:40]!r}, expected the action and the instant")
    return RemovedInstant(time, Action(action))
