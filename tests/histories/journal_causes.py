"""Which call caused each stored record. A record that needs a call and has none was added by nobody who may.

Leases that end, rounds, watermarks, ends, stops, lost ranges and forgotten plans are the server's own decisions, and
have no call. They must change the state, and only a state in which the core makes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.enumerator.core.group_lifecycle import GroupState, state_of
from penstock.enumerator.core.over_tables import BOUND
from penstock.enumerator.core.records import (
    Durable,
    Gone,
    GroupCreated,
    GroupDeleted,
    GroupEnded,
    GroupKey,
    GroupMoved,
    GroupStopped,
    Moved,
    NumbersUsed,
    PlanOpened,
    ReaderGone,
    ReaderJoined,
    RoundPlanned,
    SlotsAsked,
    SplitsAssigned,
    SplitsCommitted,
    WatermarkMoved,
)
from penstock.enumerator.core.rounds import DONE
from penstock.enumerator.core.state import State
from penstock.enumerator.core.tables import TableAdded, TableDropped
from penstock.proto.model.groups import OnLostRange

Json = dict[str, Any]
Key = tuple[Any, ...]
NEVER = 1 << 63


@dataclass(frozen=True, slots=True)
class Cause:
    """When the calls that can have caused a record were asked and answered: the record is after the first question, and
    before the first answer."""

    asked_ns: int = -1
    answered_ns: int = NEVER


OWN = Cause()
"""A decision of the server: at any time."""


class Unexplained(Exception):
    """Nothing caused a record."""


class Causes:
    """The calls of a history by what they can have caused."""

    def __init__(self, calls: Iterable[Json]) -> None:
        """`calls`: all calls that may have had an effect: `name`, `asked_ns`, `answered_ns` (NEVER without a good
        answer), `question`, and the `epoch` that a join was answered with."""
        self._calls: dict[Key, Cause] = {}
        self._entries: dict[tuple[str, int], set[int]] = defaultdict(set)
        self._asked: Counter[tuple[str, int]] = Counter()
        self._plan_ids: set[str] = set()
        self._requests: set[Key] = set()
        for call in calls:
            for key in self._keys(call["name"], call["question"], call["epoch"]):
                before = self._calls.get(key, Cause(NEVER))
                answered_ns = min(before.answered_ns, call["answered_ns"])
                self._calls[key] = Cause(min(before.asked_ns, call["asked_ns"]), answered_ns)

    def _keys(self, name: str, question: Json, epoch: int | None) -> Iterator[Key]:
        match name:
            case "JoinGroup":
                yield "joined", epoch
                yield "join", question["group"], question["reader"], question["request"]
                yield "create", question["group"], None if question["over"] else question["table"]
            case "CreateGroup":
                yield "create", question["group"], question["table"]
            case "RequestSplits":
                yield "request", *question["member"], question["sequence"]
            case "CommitSplits":
                yield "commit", *question["member"][:2]
                for plan_id, index, ordinal, finished in question["done"]:
                    done = (plan_id, index, None if finished else ordinal)
                    yield "done", *question["member"], *done
                    yield "done", *question["member"][:2], *done
            case "LeaveGroup":
                yield "leave", *question["member"]
            case "ResetGroup" if not question["dry_run"]:
                yield "move", question["group"]
            case "DeleteGroup":
                yield "delete", question["group"]
            case "OpenPlan":
                yield "plan", question["request"]
            case "NextSplit":
                plan_id, slot, index = question["entry"]
                self._entries[plan_id, slot].add(index)
            case "AddTable" | "RemoveTable":
                yield name, question["table"]

    def of(self, record: Durable, before: State) -> Cause:
        """What caused the record, in the state before it. Unexplained: nothing."""
        match record:
            case SplitsAssigned():
                return self._of_assigned(record, before)
            case SplitsCommitted():
                return self._of_committed(record, before)
            case ReaderJoined():
                return self._of_joined(record, before)
            case ReaderGone(key=key, reader_id=reader_id):
                return self._left(key, reader_id, before) if record.cause is Gone.LEFT else OWN
            case GroupMoved():
                return self._of_moved(record, before)
            case GroupCreated(key=key):
                require(key not in before.groups, f"{key} is there already")
                return self._one_of(("create", key.group, key.table), ("create", key.group, None))
            case GroupDeleted(key=key):
                return OWN if record.expired else Cause(self._one_of(("delete", key.group)).asked_ns)
            case PlanOpened():
                require(record.plan_id not in self._plan_ids, f"plan {record.plan_id} was opened before")
                require(record.request_id not in before.requests, f"request {record.request_id} opened a plan before")
                self._plan_ids.add(record.plan_id)
                return self._one_of(("plan", record.request_id))
            case SlotsAsked():
                self._require_entries(record)
            case TableAdded() | TableDropped():
                return self._one_of(("AddTable" if isinstance(record, TableAdded) else "RemoveTable", record.table))
            case RoundPlanned() | GroupEnded() | GroupStopped() | WatermarkMoved():
                self._require_change(record, before)
            case NumbersUsed():
                raise Unexplained("it is not at the beginning of the log")
        return OWN

    def of_compacted(self, record: Durable) -> None:
        """Unexplained: a record that begins a compacted log commits what nobody committed, or has entries of slots that
        nobody asked for."""
        match record:
            case SplitsCommitted(key=key, ordinals=ordinals, finished=finished):
                for place in ((*each, None) for each in finished):
                    self._one_of(("done", key.table, key.group, *place))
                for each in ordinals:
                    self._one_of(("done", key.table, key.group, *each))
            case SlotsAsked():
                self._require_entries(record)
            case PlanOpened(plan_id=plan_id) | RoundPlanned(plan_id=plan_id):
                self._plan_ids.add(plan_id)

    def _require_entries(self, record: SlotsAsked) -> None:
        for slot in record.slots:
            self._asked[record.plan_id, slot] += 1
            most = len(self._entries[record.plan_id, slot])
            require(self._asked[record.plan_id, slot] <= most, f"nobody asked for so many entries of slot {slot}")

    def _one_of(self, *keys: Key) -> Cause:
        found = [self._calls[key] for key in keys if key in self._calls]
        require(bool(found), f"nobody asked for it: {keys[0]}")
        return Cause(min(each.asked_ns for each in found), min(each.answered_ns for each in found))

    def _of_joined(self, record: ReaderJoined, before: State) -> Cause:
        require(record.epoch > before.last_number, f"epoch {record.epoch} was given before")
        if record.request_id.startswith(BOUND):
            epoch = int(record.request_id.removeprefix(BOUND))
            whole = before.names.over_tables.get(record.key.group)
            reader = None if whole is None else whole.readers.get(record.reader_id)
            require(reader is not None and reader.epoch == epoch, "the reader is no member of the group over tables")
            return OWN
        asked = self._one_of(("join", record.key.group, record.reader_id, record.request_id))
        return Cause(asked.asked_ns, self._calls.get(("joined", record.epoch), OWN).answered_ns)

    def _members(self, key: GroupKey, reader_id: str, before: State) -> Iterator[Key]:
        """The members that may have called: the reader, or that of the group over tables to which it belongs."""
        reader = before.groups[key].readers[reader_id]
        yield key.table, key.group, reader_id, reader.epoch
        whole = before.names.over_tables.get(key.group)
        if whole is not None and reader.request_id.startswith(BOUND):
            yield whole.key.table, key.group, reader_id, int(reader.request_id.removeprefix(BOUND))

    def _of_assigned(self, record: SplitsAssigned, before: State) -> Cause:
        members = list(self._members(record.key, record.reader_id, before))
        answered = (record.key, *members[0], record.sequence)
        require(answered not in self._requests, f"request {record.sequence} was answered with splits before")
        self._requests.add(answered)
        return self._one_of(*(("request", *member, record.sequence) for member in members))

    def _of_committed(self, record: SplitsCommitted, before: State) -> Cause:
        group = before.groups[record.key]
        causes = [self._one_of(("commit", record.key.table, record.key.group))]
        done = [(*place, None) for place in record.finished]
        for plan_id, index, ordinal in (*done, *record.ordinals):
            one = group.rounds[plan_id]
            known = one.ordinals.get(index, 0)
            require(one.status[index] != DONE, f"split {index} of round {plan_id} was finished before")
            require(ordinal is None or ordinal > known, f"split {index} of round {plan_id} was committed before")
            reader_id = one.holders.get(index)
            require(reader_id is not None, f"nobody held split {index} of round {plan_id}")
            epoch = group.readers[reader_id].epoch
            member = (record.key.table, record.key.group, reader_id, epoch)
            causes.append(self._one_of(("done", *member, plan_id, index, ordinal)))
        if len(causes) == 1:  # an empty one: progress that was committed before
            return Cause(causes[0].asked_ns)
        asked_ns = max(each.asked_ns for each in causes)
        return Cause(asked_ns, min(each.answered_ns for each in causes[1:]))

    def _left(self, key: GroupKey, reader_id: str, before: State) -> Cause:
        return self._one_of(*(("leave", *member) for member in self._members(key, reader_id, before)))

    def _of_moved(self, record: GroupMoved, before: State) -> Cause:
        group = before.groups[record.key]
        require(record.number > before.last_number, f"generation {record.number} was used before")
        match record.cause:
            case Moved.RESET:
                return Cause(self._one_of(("move", record.key.group)).asked_ns)
            case Moved.STARTED:
                require(group.at_newest or group.at_snapshot, "the group has begun")
            case Moved.LOST_RANGE:
                require(group.scope.on_lost_range is not OnLostRange.FAIL, "the group does not go on without rows")
        return OWN

    def _require_change(self, record: RoundPlanned | GroupEnded | GroupStopped | WatermarkMoved, before: State) -> None:
        group = before.groups[record.key]
        if isinstance(record, WatermarkMoved):
            require((record.watermark, record.coming) != (group.watermark, group.coming), "it changes nothing")
            return
        require(state_of(group) is GroupState.FOLLOWING, f"the group is {state_of(group).name}")
        if isinstance(record, RoundPlanned):
            require(record.plan_id not in self._plan_ids, f"round {record.plan_id} was planned before")
            begin = record.commit_range.after
            require(
                begin == group.progress.position, f"it begins at {begin}, the group is at {group.progress.position}"
            )
            self._plan_ids.add(record.plan_id)
        elif isinstance(record, GroupEnded):
            require(group.scope.upto is not None, "the group has no end")


def require(condition: bool, text: str) -> None:
    """Unexplained without the condition."""
    if not condition:
        raise Unexplained(text)
