"""What a check found, and what numbers mean. Pure: everything that was looked up is passed in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from penstock.proto.client.certificates import Validity

SKEW_WARN_S: Final = 1.0
SKEW_FAIL_S: Final = 60.0
"""A clock that is further off breaks tokens and certificates, and makes times of instants misleading."""
EXPIRY_WARN: Final = timedelta(days=30)
NEEDED_JAVA: Final = 17
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_BOUND = re.compile(r"\s*(>=|<=|==|<|>|~=|!=)\s*([0-9][0-9.]*)")


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `advice`: what to do, '' if nothing."""

    check: str
    level: Level
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A library that Penstock needs, with the bounds of its version. `extra` '': always."""

    name: str
    bounds: tuple[tuple[str, tuple[int, ...]], ...]
    extra: str

    @property
    def shown(self) -> str:
        """The bounds as written."""
        return ",".join(f"{sign}{'.'.join(map(str, number))}" for sign, number in self.bounds)


def requirement_of(text: str) -> Requirement | None:
    """A line of `Requires-Dist`; None for one that only tests need."""
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        return None
    extra = _EXTRA.search(match[3] or "")
    named = extra[1] if extra else ""
    if named in ("test", "soak"):
        return None
    bounds = tuple((sign, numbers_of(number)) for sign, number in _BOUND.findall(match[2]))
    return Requirement(match[1], bounds, named)


def numbers_of(version: str) -> tuple[int, ...]:
    """The release of a version: 1.85.1rc1 is (1, 85, 1)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def judged_library(needed: Requirement, version: str | None) -> Finding:
    """Whether the version that is installed is within the bounds."""
    check = f"library {needed.name}"
    install = (
        f'pip install "penstock[{needed.extra}]"' if needed.extra else f'pip install "{needed.name}{needed.shown}"'
    )
    if version is None:
        if needed.extra:
            return Finding(check, Level.OK, f"not installed; only needed for {needed.extra}", install)
        return Finding(check, Level.FAIL, f"not installed, needed {needed.shown or 'in any version'}", install)
    bad = [sign for sign, bound in needed.bounds if not _holds(sign, numbers_of(version), bound)]
    if bad:
        return Finding(
            check, Level.FAIL, f"{version}, needed {needed.shown}", f'pip install "{needed.name}{needed.shown}"'
        )
    return Finding(check, Level.OK, f"{version} ({needed.shown})" if needed.shown else version)


def _holds(sign: str, version: tuple[int, ...], bound: tuple[int, ...]) -> bool:
    size = max(len(version), len(bound))
    here, there = (numbers + (0,) * (size - len(numbers)) for numbers in (version, bound))
    match sign:
        case ">=":
            return here >= there
        case "<=":
            return here <= there
        case "<":
            return here < there
        case ">":
            return here > there
        case "==":
            return here == there
        case "~=":
            return here >= there and version[: len(bound) - 1] == bound[:-1]
        case _:
            return here != there


def judged_java(major: int | None, banner: str | None, needed: bool) -> Finding:
    """Java matters for Spark alone: `needed` says whether PySpark is here."""
    worst = Level.WARN
    advice = f"install Java {NEEDED_JAVA} or newer, or set JAVA_HOME, before reading in Spark"
    if banner is None:
        text = "no Java" + ("; Spark cannot start" if needed else "; only needed for Spark")
        return Finding("java", worst if needed else Level.OK, text, advice if needed else "")
    if major is None or major < NEEDED_JAVA:
        return Finding("java", worst, f"{banner}: Spark needs {NEEDED_JAVA} or newer", advice)
    return Finding("java", Level.OK, banner)


def judged_skew(check: str, ahead_s: float, whose: str) -> Finding:
    """`ahead_s`: how far the other clock is ahead of this one; below 0 behind."""
    text = f"{whose} is {abs(ahead_s):.1f} s {'ahead of' if ahead_s >= 0 else 'behind'} this machine"
    advice = "let both keep time by NTP"
    if abs(ahead_s) > SKEW_FAIL_S:
        return Finding(check, Level.FAIL, text, advice)
    if abs(ahead_s) > SKEW_WARN_S:
        return Finding(check, Level.WARN, text, advice)
    return Finding(check, Level.OK, text)


def judged_certificate(check: str, held: Validity | None, now: datetime) -> Finding:
    """Whether a certificate holds now, and for how long."""
    if held is None:
        return Finding(check, Level.WARN, "holds no certificate that can be read", "give a PEM file")
    if problem := held.problem(now):
        return Finding(check, Level.FAIL, problem, "renew it")
    left = held.end - now
    text = f"until {held.end:%Y-%m-%d}, {left.days} days"
    if left < EXPIRY_WARN:
        return Finding(check, Level.WARN, text, "renew it soon")
    return Finding(check, Level.OK, text)


def judged_kernels(folder: str | None, compiled: int, kernels: int) -> Finding:
    """Where compiled kernels are kept, and how many of them are."""
    if folder is None:
        return Finding(
            "kernel cache", Level.WARN, "no folder can be written: every process compiles its kernels anew",
            "set NUMBA_CACHE_DIR to a folder that can be written",
        )  # fmt: skip
    text = f"{compiled} of {kernels} kernels compiled in {folder}"
    if compiled == 0:
        return Finding("kernel cache", Level.WARN, f"cold: {text}", "the first read compiles them, once")
    return Finding("kernel cache", Level.OK, text)
