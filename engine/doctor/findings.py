"""Findings of `penstock doctor`, and the rules that rate a measurement as ok, warning or failure. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from penstock.proto.client.certificates import Validity

SKEW_WARN_S: Final = 1.0
SKEW_FAIL_S: Final = 60.0
"""A larger clock difference breaks tokens and certificates, and makes times of instants misleading."""
EXPIRY_WARN: Final = timedelta(days=30)
NEEDED_JAVA: Final = 17
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_BOUND = re.compile(r"\s*(>=|<=|==|<|>|~=|!=)\s*([0-9][0-9.]*)")


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    check: str
    """The name of the check."""
    level: Level
    """The severity."""
    text: str
    """The result of the check."""
    advice: str = ""
    """What to do; '' for nothing."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A library that Penstock requires."""

    name: str
    """The name of the distribution."""
    bounds: tuple[tuple[str, tuple[int, ...]], ...]
    """The bounds of its version: operator and version numbers."""
    extra: str
    """The extra that requires it; '' for a library that is always required."""

    @property
    def text(self) -> str:
        """The bounds as in the metadata."""
        return ",".join(f"{sign}{'.'.join(map(str, number))}" for sign, number in self.bounds)


@dataclass(frozen=True, slots=True)
class PythonFacts:
    """What a Python has that runs one of Spark's processes."""

    version: tuple[int, int]
    """Its major and minor version."""
    packages: Mapping[str, str]
    """The version of each necessary package that is installed, by name."""


def requirement_of(text: str) -> Requirement | None:
    """Parses a line of `Requires-Dist`. None for one that only tests need."""
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
    """The release numbers of a version: 1.85.1rc1 is (1, 85, 1)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def judged_library(needed: Requirement, version: str | None) -> Finding:
    """Rates the installed version of a library (None: not installed)."""
    check = f"library {needed.name}"
    install = f'pip install "penstock[{needed.extra}]"' if needed.extra else f'pip install "{needed.name}{needed.text}"'
    if version is None:
        if needed.extra:
            return Finding(check, Level.OK, f"not installed; only needed for {needed.extra}", install)
        return Finding(check, Level.FAIL, f"not installed, needed {needed.text or 'in any version'}", install)
    bad = [sign for sign, bound in needed.bounds if not _holds(sign, numbers_of(version), bound)]
    if bad:
        return Finding(
            check, Level.FAIL, f"{version}, needed {needed.text}", f'pip install "{needed.name}{needed.text}"'
        )
    return Finding(check, Level.OK, f"{version} ({needed.text})" if needed.text else version)


def _holds(sign: str, version: tuple[int, ...], bound: tuple[int, ...]) -> bool:
    size = max(len(version), len(bound))
    installed, required = (numbers + (0,) * (size - len(numbers)) for numbers in (version, bound))
    match sign:
        case ">=":
            return installed >= required
        case "<=":
            return installed <= required
        case "<":
            return installed < required
        case ">":
            return installed > required
        case "==":
            return installed == required
        case "~=":
            return installed >= required and version[: len(bound) - 1] == bound[:-1]
        case _:
            return installed != required


def judged_java(major: int | None, banner: str | None, needed: bool) -> Finding:
    """Rates Java, which only Spark needs. `needed`: whether PySpark is installed."""
    worst = Level.WARN
    advice = f"install Java {NEEDED_JAVA} or newer, or set JAVA_HOME, before reading in Spark"
    if banner is None:
        text = "no Java" + ("; Spark cannot start" if needed else "; only needed for Spark")
        return Finding("java", worst if needed else Level.OK, text, advice if needed else "")
    if major is None or major < NEEDED_JAVA:
        return Finding("java", worst, f"{banner}: Spark needs {NEEDED_JAVA} or newer", advice)
    return Finding("java", Level.OK, banner)


def judged_spark_python(
    variable: str, name: str, path: str | None, facts: PythonFacts | None, own: PythonFacts, replacement: str
) -> Finding:
    """Rates the command that Spark runs for its Python processes.

    `variable`: the variable that names it, '' for Spark's default; a bad default is only a warning, because it depends
    on the shell. `path`: the command on the PATH, None if it does not exist. `facts`: what it has, None if it does not
    run. `own`: what this Python has. `replacement`: a command that works here.
    """
    check, command = "spark python", f"{variable}={name}" if variable else f"{name} of the PATH"
    bad = Level.FAIL if variable else Level.WARN
    advice = f"set PYSPARK_PYTHON={replacement}" + ("" if variable else ", or import penstock.spark before the session")
    if path is None:
        return Finding(check, bad, f"{command}: no such command, so Spark cannot start its Python processes", advice)
    if facts is None:
        return Finding(check, bad, f"{command}: {path} does not run as Python", advice)
    version = ".".join(map(str, facts.version))
    if missing := [package for package in own.packages if package not in facts.packages]:
        text = f"{command}: {path} has no {' and no '.join(missing)}, so Spark does not find the format penstock"
        return Finding(check, bad, text, advice)
    if facts.version != own.version:
        expected = ".".join(map(str, own.version))
        text = f"{command}: {path} is Python {version}, this one {expected}; Spark needs the same minor version"
        return Finding(check, bad, text, advice)
    text = f"{command}: {path}, Python {version}, {', '.join(f'{name} {v}' for name, v in facts.packages.items())}"
    if facts.packages != own.packages:
        expected = ", ".join(f"{name} {v}" for name, v in own.packages.items())
        return Finding(check, Level.WARN, f"{text}; this Python has {expected}", "install the same versions")
    return Finding(check, Level.OK, text)


def judged_skew(check: str, ahead_s: float, whose: str) -> Finding:
    """Rates a clock difference. `ahead_s`: seconds by which the other clock is ahead of this one; negative: behind."""
    text = f"{whose} is {abs(ahead_s):.1f} s {'ahead of' if ahead_s >= 0 else 'behind'} this machine"
    advice = "synchronize both clocks by NTP"
    if abs(ahead_s) > SKEW_FAIL_S:
        return Finding(check, Level.FAIL, text, advice)
    if abs(ahead_s) > SKEW_WARN_S:
        return Finding(check, Level.WARN, text, advice)
    return Finding(check, Level.OK, text)


def judged_certificate(check: str, held: Validity | None, now: datetime) -> Finding:
    """Rates a certificate: whether it is valid now, and until when."""
    if held is None:
        return Finding(check, Level.WARN, "no readable certificate", "give a PEM file")
    if problem := held.problem(now):
        return Finding(check, Level.FAIL, problem, "renew it")
    remaining = held.end - now
    text = f"until {held.end:%Y-%m-%d}, {remaining.days} days"
    if remaining < EXPIRY_WARN:
        return Finding(check, Level.WARN, text, "renew it soon")
    return Finding(check, Level.OK, text)


def judged_kernels(folder: str | None, compiled: int, kernels: int) -> Finding:
    """Rates the cache of compiled kernels. `folder` None: no folder can be written."""
    if folder is None:
        return Finding(
            "kernel cache", Level.WARN, "no folder can be written: every process compiles the kernels again",
            "set NUMBA_CACHE_DIR to a folder that can be written",
        )  # fmt: skip
    text = f"{compiled} of {kernels} kernels compiled in {folder}"
    if compiled == 0:
        return Finding(
            "kernel cache",
            Level.WARN,
            f"cold: {text}",
            "the first read of many records compiles them once; `penstock doctor --warm` does it now",
        )
    return Finding("kernel cache", Level.OK, text)
