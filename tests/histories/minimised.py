"""The shortest part of a failing history that still fails, and its text on one screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.histories.checker import violations
from tests.histories.history import NEVER, Call, Delivered, History, Json
from tests.histories.violations import Violation

LINES = 30
"""The most lines of a screen."""
_T = TypeVar("_T")


def minimised(history: History, violation: Violation) -> History:
    """A part of the history with the same violation, from which no session and no call or batch can be left out."""

    def fails(part: Sequence[Call | Delivered]) -> bool:
        return any((each.rule, each.subject, each.text) == wanted for each in violations(_with(history, part)))

    wanted = (violation.rule, violation.subject, violation.text)
    sessions: dict[str, list[Call | Delivered]] = {}
    for event in (*history.calls, *history.delivered):
        sessions.setdefault(_session(event), []).append(event)
    kept = reduced(list(sessions.values()), lambda part: fails([event for each in part for event in each]))
    return _with(history, reduced([event for each in kept for event in each], fails))


def reduced(items: list[_T], fails: Callable[[list[_T]], bool]) -> list[_T]:
    """Zeller's delta debugging: a part of the items that fails, and from which no single item can be left out."""
    size = max(1, len(items) // 2)
    while True:
        for first in range(0, len(items), size):
            rest = items[:first] + items[first + size :]
            if rest != items and fails(rest):
                items = rest
                break
        else:
            if size == 1:
                return items
            size = max(1, size // 2)
            continue
        size = max(1, min(size, len(items) // 2))


def told(history: History, violation: Violation, folder: str = "") -> str:
    """The violation and its shortest history, on one screen."""
    part = minimised(history, violation)
    events = sorted([*part.calls, *part.delivered], key=_begin)
    start = _begin(events[0]) if events else 0
    lines = [line for event in events for line in _lines(event, start)]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 5], f"… {len(lines) - LINES + 1} more lines …", *lines[-4:]]
    total = len(history.calls) + len(history.delivered)
    head = [f"broken: {violation}", f"{len(events)} of {total} calls and batches show it ({folder}):"]
    return "\n".join(line[:200] for line in (*head, *lines))


def _with(history: History, part: Sequence[Call | Delivered]) -> History:
    calls = tuple(sorted((each for each in part if isinstance(each, Call)), key=_begin))
    delivered = tuple(sorted((each for each in part if isinstance(each, Delivered)), key=_begin))
    return replace(history, calls=calls, delivered=delivered)


def _begin(event: Call | Delivered) -> int:
    return event.asked_ns if isinstance(event, Call) else event.at_ns


def _session(event: Call | Delivered) -> str:
    if isinstance(event, Delivered):
        return str(event.member)
    if event.name == "JoinGroup" and event.is_ok:
        return str(tuple(event.answer["member"]))
    return str(event.member) if "member" in event.question else event.where


def _lines(event: Call | Delivered, start_ns: int) -> list[str]:
    at = f"{(_begin(event) - start_ns) / 1e6:9.1f} ms "
    if isinstance(event, Delivered):
        text = f"{event.split_id} rows {event.first} to {event.next}, batch {event.sequence}"
        return [f"{at} {event.member[2]}/{event.member[3]} returns {text} [{event.where}]"]
    lines = [f"{at} {_asked(event)} [{event.where}]"]
    if event.answered_ns == NEVER:
        return [*lines, " " * 13 + "  never answered"]
    return [*lines, f"{(event.answered_ns - start_ns) / 1e6:9.1f} ms   {event.code} {_answered(event)}"]


def _asked(call: Call) -> str:
    """The question in a few words: who asks for what."""
    who = "{2}/{3} ".format(*call.member) if "member" in call.question else ""
    done = [
        f"{plan_id[:8]}:{index} up to row {ordinal}{', the end' if finished else ''}"
        for plan_id, index, ordinal, finished in call.question.get("done", ())
    ]
    return f"{who}{call.name} {'; '.join(done) or _fields(call.question, 'member', 'done')}"


def _answered(call: Call) -> str:
    splits = call.answer.get("splits")
    if not isinstance(splits, list) or not splits:
        return _fields(call.answer)
    return "; ".join(f"{each['place'][0][:8]}:{each['place'][1]} from row {each['start']}" for each in splits)


def _fields(line: Json, *hidden: str) -> str:
    """The other fields of a line; empty without one."""
    known = {"n", "t", "ask", "request", "answer", "code", *hidden}
    return " ".join(f"{name}={value}" for name, value in line.items() if name not in known and value not in ("", []))
