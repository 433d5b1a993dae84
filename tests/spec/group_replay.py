"""Replays a trace of `spec/group.pml` against `decide` and `apply` of the core, and compares every answer and state.

A step at which the core breaks an invariant of the exhaustive search is a disagreement too: the specification keeps it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import GroupState, state_of
from penstock.enumerator.core.records import Durable, GroupCreated
from penstock.enumerator.core.results import Decision
from penstock.enumerator.core.rounds import DONE, HELD
from penstock.enumerator.core.stored.codec import encode_record
from penstock.proto.model.groups import Member
from penstock.proto.model.queries import NO_LIMITS
from tests.simulation.checkers import CheckFailed
from tests.spec.traces import BadTrace, Disagreement, Trace, agree, check_version, read_trace, value
from tests.state_space.group_ledger import Ref
from tests.state_space.group_server import KEY, READERS, Answer, Call, GroupServer, Numbers, progress_at
from tests.state_space.group_table import FIRST, SECOND, Scope, SplitRows, key_of
from tests.state_space.scopes import THREE_SPLITS

Step = Mapping[str, Any]
ROWS: Final = 4
"""Rows of the first split, which can be committed one by one."""
SCOPE: Final = replace(
    THREE_SPLITS,
    commits={**THREE_SPLITS.commits, FIRST: (SplitRows("a", tuple(range(ROWS))), SplitRows("b", (3,)))},
    has_end=True,
)
KEYS: Final = (0, FIRST, SECOND)
"""Order keys of the positions 0, 1 and 2 of the specification."""
SPLITS: Final = ((FIRST, 0), (FIRST, 1), (SECOND, 0))
"""Instant and index of each split of the specification."""
ABSENT, PENDING, FINISHED, HELD_BY_FIRST = 0, 1, 2, 3


class ReplayServer(GroupServer):
    """The server of the search, with heartbeats and departures."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.versions: set[int] = set()
        """The versions of the records that it wrote."""

    def header(self) -> dict[str, Any]:
        """The first line of a trace that fits this core: the version is that of the stored records of a group."""
        created = GroupCreated(
            key=KEY, number=1, scope=self.group_scope, limits=NO_LIMITS, progress=progress_at(0, frozenset())
        )
        return {
            "spec": "group",
            "version": encode_record(created).version,
            "splits": len(SPLITS),
            "commits": len(KEYS) - 1,
            "max_splits": SCOPE.most_splits,
            "rows": ROWS,
        }

    def durable(self, decision: Decision[Any]) -> list[Durable]:
        """The records that are appended to the log."""
        records = super().durable(decision)
        self.versions.update(encode_record(record).version for record in records)
        return records

    def _call(self, numbers: Numbers, reader: int, call: Call) -> tuple[int, int, Answer]:
        if call[0] not in ("beat", "leave"):
            return super()._call(numbers, reader, call)
        member = Member(KEY.table, KEY.group, READERS[reader], call[1])
        event = ev.Heartbeat(member) if call[0] == "beat" else ev.Leave(member)
        live, log, answer = self._decide(numbers.live, numbers.appended, event)
        return live, log, answer or ("alive" if call[0] == "beat" else "gone",)


class GroupReplay:
    """The core, and the names of the specification for its numbers."""

    def __init__(self, server: ReplayServer | None = None) -> None:
        self.server = server or ReplayServer(SCOPE)
        self.numbers = self.server.first()
        self.visible: frozenset[int] = frozenset()
        self.epochs = {0: 0}
        self.generations = {1: self.server.group(self.numbers.live).number}
        self.sequences = [0, 0]
        self.granted = [0, 0]
        """By reader: its newest request if the last answer to it has splits, else 0."""
        self.received = [0, 0]
        self.copied = (0, 0)
        """The number of the request that is doubled, and what its reader had received."""
        self.refs: dict[tuple[int, int], Ref] = {}
        self.discoveries: dict[tuple[int, int], Call] = {}
        self.counts: Counter[str] = Counter()

    def step(self, step: Step) -> None:
        """Makes one step. Disagreement, or BadTrace for a step that the core does not have."""
        steps: dict[str, Callable[[Step], None]] = {
            "commit": self._commit,
            "reads": self._reads,
            "discovered": self._discovered,
            "next": self._next,
            "doubled": self._doubled,
            "synced": self._synced,
            "expired": self._expired,
            "reset": self._reset,
            "restart": self._restart,
        }
        try:
            self._step(step, steps)
        except CheckFailed as broken:
            raise Disagreement(f"the core breaks {broken.check} at {dict(step)}: {broken}") from broken
        if "status" in step:
            self._compare_states(step)
        self.counts[step["step"]] += 1

    def _step(self, step: Step, steps: Mapping[str, Callable[[Step], None]]) -> None:
        kind = step["step"]
        if kind in ("join", "ask", "part", "finish", "leave", "beat"):
            self._call(step)
        elif kind in steps:
            steps[kind](step)
        else:
            raise BadTrace(f"this core has no step {kind!r}: {dict(step)}")
        self.server.check_replay(self.numbers)

    def end(self) -> None:
        """Every split is finished, the position is the end, and all of it is durable. BadTrace if the core wrote
        records of another version than the trace."""
        check_version(self.server.header(), self.server.versions)
        group = self.server.group(self.numbers.live)
        agree({"step": "end"}, "state", GroupState.ENDED, state_of(group))
        agree({"step": "end"}, "durable", self.numbers.appended, self.numbers.synced)
        self.server.ledger(self.numbers.synced).check_complete(SCOPE, self.visible)

    # --- steps

    def _commit(self, step: Step) -> None:
        self.visible = frozenset(KEYS[1 : value(step, "visible") + 1])

    def _reads(self, step: Step) -> None:
        at, start = value(step, "generation"), value(step, "from")
        number = self.generations[at]
        if start == len(KEYS) - 1:
            self.discoveries[at, start] = ("nothing", number, KEYS[start])
        else:
            self.discoveries[at, start] = ("round", number, KEYS[start], KEYS[start + 1], self.visible)

    def _discovered(self, step: Step) -> None:
        result = self.discoveries[value(step, "generation"), value(step, "from")]
        live, appended = self.server.discovered(self.numbers, result)
        self.numbers = self.numbers._replace(live=live, appended=appended)

    def _next(self, step: Step) -> None:
        reader = value(step, "reader")
        self.received[reader] = self.granted[reader] or self.received[reader]  # it heard the answer
        self.granted[reader] = 0
        self.sequences[reader] += 1

    def _doubled(self, step: Step) -> None:
        reader = value(step, "reader")
        self.copied = (self.sequences[reader], self.received[reader])

    def _synced(self, _: Step) -> None:
        self.numbers = self.numbers._replace(synced=self.numbers.appended)

    def _expired(self, step: Step) -> None:
        members = self.server.group(self.numbers.live).readers
        agree(step, "is a member", True, READERS[value(step, "reader")] in members)
        live, appended = self.server.expired(self.numbers, value(step, "reader"))
        self.numbers = self.numbers._replace(live=live, appended=appended)

    def _reset(self, step: Step) -> None:
        live, appended = self.server.reset(self.numbers, KEYS[value(step, "to")], self.visible)
        self.numbers = self.numbers._replace(live=live, appended=appended)
        self.generations[value(step, "generation")] = self.server.group(live).number

    def _restart(self, step: Step) -> None:
        log = self.numbers.appended if value(step, "synced") else self.numbers.synced
        live, appended = self.server.restarted(log)
        self.numbers = Numbers(live, appended, appended)

    # --- calls

    def _call(self, step: Step) -> None:
        reader = value(step, "reader")
        live, appended, answer = self.server.call(self.numbers, reader, self._call_of(step))
        self.numbers = self.numbers._replace(live=live, appended=appended)
        if not value(step, "copy"):  # nobody hears the answer to a second copy
            self._compare_answers(step, answer)
        elif step["step"] == "ask" and self.copied[0] < self.sequences[reader]:
            self.counts[f"earlier copy {answer[0]}"] += 1

    def _call_of(self, step: Step) -> Call:
        kind, reader = step["step"], value(step, "reader")
        epoch = self.epochs[value(step, "epoch")]
        if kind == "join":
            return ("join", f"{READERS[reader]}-{value(step, 'join')}")
        if kind == "ask":
            newest = (self.sequences[reader], self.received[reader])
            return ("ask", epoch, *(self.copied if value(step, "copy") else newest))
        if kind in ("beat", "leave"):
            return (kind, epoch)
        items = []
        for split, (instant, index) in enumerate(SPLITS):
            if value(step, "what") & (1 << split):
                rows, first = len(SCOPE.splits(instant)[index].times), value(step, "from")[split]
                end = first + 1 if kind == "part" else rows
                items.append((self._ref(reader, split), index, first, end, kind == "finish"))
        return ("commit", epoch, tuple(items))

    def _ref(self, reader: int, split: int) -> Ref:
        if (reader, split) not in self.refs:
            raise BadTrace(f"reader {reader} commits split {split}, which it did not receive")
        return self.refs[reader, split]

    def _compare_answers(self, step: Step, answer: Answer) -> None:
        agree(step, "answer", value(step, "answer"), "unknown" if answer[0] == "unknown split" else answer[0])
        self.counts[f"answer {answer[0]}"] += 1
        reader = step["reader"]
        if answer[0] == "joined":
            epoch = value(step, "got")
            agree(step, "epoch", self.epochs.setdefault(epoch, answer[1]), answer[1])
            agree(step, "order of epochs", sorted(self.epochs.values()), [self.epochs[e] for e in sorted(self.epochs)])
            self.sequences[reader] = self.granted[reader] = self.received[reader] = 0
        if step["step"] == "ask":
            self.granted[reader] = self.sequences[reader] if answer[0] == "splits" else 0
        if answer[0] == "splits":
            got = {split for split in range(len(SPLITS)) if value(step, "got") & (1 << split)}
            starts = {SPLITS[split]: value(step, "ordinals")[split] for split in got}
            agree(step, "splits", starts, {(ref[2], index): start for ref, index, start in answer[1]})
            lane = [ref[2] for ref, index, _ in answer[1] if index == 0]
            agree(step, "order of splits", sorted(lane), lane)
            for ref, index, _ in answer[1]:
                self.refs[reader, SPLITS.index((ref[2], index))] = ref

    def _compare_states(self, step: Step) -> None:
        group = self.server.group(self.numbers.live)
        agree(step, "planned position", KEYS[value(step, "planned")], key_of(group.progress.position))
        agree(step, "committed position", KEYS[value(step, "position")], key_of(group.committed))
        statuses, ordinals = [ABSENT] * len(SPLITS), [0] * len(SPLITS)
        for open_round in group.rounds.values():
            for index, status in enumerate(open_round.status.tolist()):
                split = SPLITS.index((key_of(open_round.commit_range.upto), index))
                ordinals[split] = open_round.ordinals.get(index, 0)
                if status == HELD:
                    statuses[split] = HELD_BY_FIRST + READERS.index(open_round.holders[index])
                else:
                    statuses[split] = FINISHED if status == DONE else PENDING
        agree(step, "states of splits", step["status"], statuses)
        agree(step, "committed rows", value(step, "ordinals"), ordinals)


def replay(text: str, server: ReplayServer | None = None) -> Counter[str]:
    """Replays a trace; how often each step and answer occurred. BadTrace, Disagreement, CheckFailed."""
    core = GroupReplay(server)
    trace: Trace = read_trace(text, core.server.header())
    for step in trace.steps:
        core.step(step)
    core.end()
    return core.counts
