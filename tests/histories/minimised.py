"""The shortest part of a failing history that still fails, and its text on one screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.histories.checker import violations
from tests.histories.history import NEVER, Call, Delivered, History
from tests.histories.violations import Violation

LINES = 30
"""The most lines of a screen."""
_T = TypeVar("_T")


def minimised(history: History, violation: Violation) -> History:
    """A part of the history with the same violation, from which no session and no call or batch can be left out."""

    def fails(part: Sequence[Call | Delivered]) -> bool:
        wanted = (violation.rule, violation.subject, violation.shown_by[-1])
        shown = violations(_with(history, part))
        return any((each.rule, each.subject, each.shown_by[-1]) == wanted for each in shown)

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
    hidden = ("n", "t", "ask", "request", "answer", "code")
    question = {name: value for name, value in event.question.items() if name not in hidden}
    answer = {name: value for name, value in event.answer.items() if name not in hidden}
    lines = [f"{at} {event.name} {question} [{event.where}]"]
    if event.answered_ns == NEVER:
        return [*lines, " " * 13 + "  never answered"]
    return [*lines, f"{(event.answered_ns - start_ns) / 1e6:9.1f} ms   {event.code} {answer}"]
