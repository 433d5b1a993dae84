"""A history: the lines of all processes of a test, as calls with their answers. Imports nothing of the product."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
Member = tuple[str, str, str, int]
"""Table, group, reader id, epoch."""
NEVER: Final = 1 << 63
"""When a call was answered that was not."""
REFUSALS: Final = frozenset({"FENCED", "UNKNOWN_GROUP", "UNKNOWN_PLAN", "UNKNOWN_SPLIT", "CONFIGURATION", "IGNORED"})
"""Codes of calls that had no effect. After any other error it is unknown whether the call had one."""
SIGKILL: Final = 9
RANGE_LOST: Final = "RangeLost"
"""The name of a server's own step: it moves a group past a range of commits that a cleaner removed."""
IN_A_SERVER: Final = frozenset({RANGE_LOST, "CreateGroup"})
"""Steps that no client calls. The second one: the test that is the server's process creates a group."""
OF_A_READER: Final = frozenset({"JoinGroup", "Heartbeat", "RequestSplits", "CommitSplits", "LeaveGroup"})


class CutOff(Exception):
    """Lines of the history are missing or damaged: it proves nothing."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call and its answer. Two calls are ordered only if one was answered before the other was asked."""

    name: str
    """The method."""
    where: str
    """The file and the line of the question."""
    asked_ns: int
    answered_ns: int
    """NEVER if the process ended before."""
    code: str
    """OK, the code of the error, or empty without an answer."""
    question: Json
    answer: Json
    state: str
    """The id of the state of the server that answered; empty: no server had the call."""

    @property
    def is_ok(self) -> bool:
        """Whether the caller knows that the call had its effect."""
        return self.code == "OK"

    @property
    def may_count(self) -> bool:
        """Whether the call may have had its effect."""
        return self.code not in REFUSALS

    def is_before(self, other: Call) -> bool:
        """Whether it was answered before the other was asked."""
        return self.answered_ns < other.asked_ns

    @property
    def member(self) -> Member:
        """The member that called."""
        return as_member(self.question["member"])


@dataclass(frozen=True, slots=True)
class Delivered:
    """A batch that a reader of a group returned to its caller."""

    where: str
    at_ns: int
    member: Member
    plan_id: str
    split_id: str
    start: int
    """The row at which the reader began the split."""
    first: int
    next: int
    sequence: int
    """The number of the batch since the reader joined, from 1."""


@dataclass(frozen=True, slots=True)
class History:
    """All calls by the time of their question, and all batches by time."""

    calls: tuple[Call, ...]
    delivered: tuple[Delivered, ...]
    directories: Mapping[str, str]
    """The directory of each state on disk, by its id."""
    inherited: frozenset[str]
    """The states that are older than the history: it lacks their first server, or what that one did before."""
    readers: frozenset[Member]
    """The members that read the splits which they receive. Others are tests that call the server themselves."""
    unfiltered: frozenset[str]
    """The plans whose readers return every row of a file: without a condition, and without a range of instants, whose
    rows a file has among others."""
    kills: tuple[tuple[str, int, int], ...]
    """Each kill of a server that had answered: its state on disk, when it was killed, and when the next server opened
    that state."""
    servers: int
    """How many processes of a server wrote a file."""


def as_member(fields: list[Any]) -> Member:
    """The member of these fields."""
    table, group, reader_id, epoch = fields
    return str(table), str(group), str(reader_id), int(epoch)


def is_asked_move(call: Call) -> bool:
    """Whether the call asks to move or delete a group."""
    return call.name == "DeleteGroup" or (call.name == "ResetGroup" and not call.question["dry_run"])


def is_move(call: Call) -> bool:
    """Whether the call moves or deletes a group: because it asks for that, or past a range that is lost."""
    return is_asked_move(call) or call.name == RANGE_LOST


def read_history(folder: pathlib.Path, is_running: Callable[[int], bool] = lambda pid: False) -> History:
    """The history of a folder. CutOff: a file lacks lines, a server answered a call that no file has, or a caller has
    an answer that no server gave."""
    return joined({path.name: lines_of(path) for path in sorted(folder.glob("*.jsonl"))}, is_running)


def lines_of(path: pathlib.Path) -> list[Json]:
    """The lines of a file. A last line without its end was not written to the end before a kill; it is left out."""
    whole = path.read_bytes().split(b"\n")
    lines: list[Json] = []
    for number, text in enumerate(whole[:-1]):
        try:
            line = json.loads(text)
        except ValueError:
            raise CutOff(f"{path.name}: line {number} is not JSON: {text[:80]!r}") from None
        if not isinstance(line, dict) or line.get("n") != number:
            raise CutOff(f"{path.name}: got line {text[:80]!r}, expected number {number}: lines are missing")
        lines.append(line)
    if whole[-1] and lines and lines[-1].get("end"):
        raise CutOff(f"{path.name}: text after its end: {whole[-1][:80]!r}")
    return lines


def joined(files: Mapping[str, list[Json]], is_running: Callable[[int], bool] = lambda pid: False) -> History:
    """One history from the lines of each file. CutOff as for `read_history`."""
    served: dict[tuple[str, str], str] = {}
    directories: dict[str, str] = {}
    states: dict[str, bool] = {}
    files = {
        name: lines for name, lines in files.items() if lines
    }  # without one, the process began to start or was killed
    _check_ends(files, is_running)
    for lines in files.values():
        state = ""
        for line in lines:
            if "state" in line:
                state = line["state"]
                begins_here = line["epoch"] == 1 and not line.get("again")
                states[state] = states.get(state, False) or begins_here
                if line["directory"]:
                    directories[state] = line["directory"]
            elif "served" in line:
                served[line["served"], line["request"]] = state
    served_states = set(served.values())
    only = next(iter(served_states)) if len(served_states) == 1 else ""
    calls = [call for name, lines in files.items() for call in _calls(name, lines, served, only)]
    asked = {(call.name, call.question["request"]) for call in calls}
    if lacking := {key for lines in files.values() for key in _unasked(lines, asked)}:
        raise CutOff(f"a server answered {sorted(lacking)[0]}, and no file has the question: lines are missing")
    delivered = [batch for name, lines in files.items() for batch in _delivered(name, lines)]
    readers = {as_member(line["reads"]) for lines in files.values() for line in lines if "reads" in line}
    if unknown := [batch.where for batch in delivered if batch.member not in readers]:
        raise CutOff(f"{unknown[0]}: a batch of a reader, and no line says that it joined: lines are missing")
    return History(
        tuple(sorted(calls, key=lambda call: call.asked_ns)),
        tuple(sorted(delivered, key=lambda batch: batch.at_ns)),
        directories,
        frozenset(state for state, begins_here in states.items() if not begins_here),
        frozenset(readers),
        frozenset(each.question["plan"] for each in calls if each.is_ok and each.answer.get("every_row")),
        tuple(_kills(files, directories)),
        sum("serve" in lines[0].get("command", ()) for lines in files.values()),
    )


def _check_ends(files: Mapping[str, list[Json]], is_running: Callable[[int], bool]) -> None:
    """Each file begins with its process. It has an end, unless another process ended its process by a signal, or its
    process runs, and has written what it did until now. Spark's JVM ends its Python processes by a signal, which no
    file notes."""
    kills = {(line["kills"], line["is_group"]) for lines in files.values() for line in lines if "kills" in line}
    for name, lines in files.items():
        if "process" not in lines[0]:
            raise CutOff(f"{name}: it does not begin with its process: its first lines are missing")
        if any("end" in line for line in lines[:-1]):
            raise CutOff(f"{name}: lines after its end")
        process, group = lines[0]["process"], lines[0]["group"]
        is_killed = (process, False) in kills or (group, True) in kills
        is_of_spark = any(word.startswith("pyspark.") for word in lines[0].get("command", ()))
        if "end" not in lines[-1] and not is_killed and not is_of_spark and not is_running(process):
            raise CutOff(
                f"{name}: it has no end, and nobody killed its process ({lines[0].get('command')}): its last lines are "
                "missing"
            )


def _kills(files: Mapping[str, list[Json]], directories: Collection[str]) -> Iterable[tuple[str, int, int]]:
    killed = [line for lines in files.values() for line in lines if line.get("signal") == SIGKILL]
    opened = [line for lines in files.values() for line in lines if "state" in line and not line.get("again")]
    for lines in files.values():
        states = {line["state"] for line in lines if "state" in line} & set(directories)
        if not states or "end" in lines[-1] or not any("served" in line for line in lines):
            continue
        targets = ((lines[0]["process"], False), (lines[0]["group"], True))
        ends = [line["t"] for line in killed if (line["kills"], line["is_group"]) in targets]
        for state in states if ends else ():
            later = [line["t"] for line in opened if line["state"] == state and line["t"] > max(ends)]
            if later:
                yield state, max(ends), min(later)


def _unasked(lines: list[Json], asked: Collection[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """The calls that a server answered and no file of the history has.

    A process that wrote a file of an earlier test too may first answer calls that were asked before this test, by a
    reader that the earlier test left running. They come before its first answer to a call of this test.
    """
    is_of_this_test = lines[0].get("number", 1) == 1
    for line in lines:
        if "served" not in line:
            continue
        key = (line["served"], line["request"])
        if key in asked:
            is_of_this_test = True
        elif key[1] and is_of_this_test:
            yield key


def _calls(name: str, lines: Iterable[Json], served: Mapping[tuple[str, str], str], only: str) -> Iterable[Call]:
    open_calls: dict[int, Json] = {}
    state = ""
    for line in lines:
        state = line.get("state", state)
        if "ask" in line:
            open_calls[line["n"]] = {**line, "of": state} if line["ask"] in IN_A_SERVER else line
        elif "answer" in line:
            question = open_calls.pop(line["answer"], None)
            if question is None:
                raise CutOff(f"{name}: line {line['n']} answers line {line['answer']}, which asks nothing")
            yield _call(name, question, line, served, only)
    for question in open_calls.values():
        yield _call(name, question, {}, served, only)


def _call(name: str, question: Json, answer: Json, served: Mapping[tuple[str, str], str], only: str) -> Call:
    key = (question["ask"], question["request"])
    if answer.get("code") == "OK" and key not in served and key[1]:
        raise CutOff(f"{name}: line {question['n']} has an answer to {key} that no server gave: lines are missing")
    return Call(
        name=question["ask"],
        where=f"{name}:{question['n']}",
        asked_ns=question["t"],
        answered_ns=answer.get("t", NEVER),
        code=answer.get("code", ""),
        question=question,
        answer=answer,
        state=question["of"] if question["ask"] in IN_A_SERVER else served.get(key, only),
    )


def _delivered(name: str, lines: Iterable[Json]) -> Iterable[Delivered]:
    for line in lines:
        if "delivered" in line:
            yield Delivered(f"{name}:{line['n']}", line["t"], as_member(line["member"]), *line["delivered"])
