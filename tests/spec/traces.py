"""A trace of a specification: JSON lines, first what it is a trace of, then one line for each step, last its end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class BadTrace(ValueError):
    """A trace that cannot be replayed: it is cut off, or of another specification, version or scope. Never a pass."""


class Disagreement(AssertionError):
    """The specification and the core answered a step differently."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace."""

    header: Mapping[str, Any]
    """What it is a trace of."""
    steps: tuple[Mapping[str, Any], ...]
    """Its steps, without the end."""


def read_trace(text: str, expected: Mapping[str, Any]) -> Trace:
    """The trace in the text. BadTrace if it is cut off or its header is not the expected one."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise BadTrace(f"line {number} is cut off or no JSON ({error}): {line[:200]!r}") from error
        if not isinstance(entry, dict):
            raise BadTrace(f"line {number}: expected an object, got {line[:200]!r}")
        lines.append(entry)
    if not lines or "spec" not in lines[0]:
        raise BadTrace("the first line does not say which specification and version this is a trace of")
    differing = {key for key in {*lines[0], *expected} if lines[0].get(key) != expected.get(key)}
    if differing:
        got = {key: lines[0].get(key) for key in sorted(differing)}
        raise BadTrace(f"the trace is of {got}, this core is compared with {[expected.get(key) for key in got]}")
    if lines[-1] != {"step": "end"}:
        raise BadTrace(f"the trace is cut off after line {len(lines)}: it has no end")
    steps = lines[1:-1]
    for number, step in enumerate(steps, 2):
        if not isinstance(step.get("step"), str) or step["step"] == "end":
            raise BadTrace(f"line {number} is no step: {step}")
    return Trace(lines[0], tuple(steps))


def check_version(header: Mapping[str, Any], written: Iterable[int]) -> None:
    """BadTrace unless the version of the trace is the newest version of the records that the core wrote."""
    newest = max(written)
    if newest != header["version"]:
        raise BadTrace(f"the trace is of version {header['version']}, the core wrote records of version {newest}")


def value(step: Mapping[str, Any], name: str) -> Any:
    """A field of a step. BadTrace if the step does not have it."""
    if name not in step:
        raise BadTrace(f"the step has no {name}: {dict(step)}")
    return step[name]


def agree(step: Mapping[str, Any], name: str, spec: object, core: object) -> None:
    """Disagreement unless both are equal."""
    if spec != core:
        raise Disagreement(f"{name}: the specification says {spec}, the core {core}, at {dict(step)}")
