"""Penstock beside other readers of Hudi tables, in one command: `make bench`.

    python -m bench.compare [--only PART …] [--quick] [--rows 1000000] [--rounds 4] [--out docs/results]

Makes its tables with real Hudi 1.2.0 (once; kept under `.cache/bench`), checks that all readers return equal rows by
the path their name says, runs them in turn, and writes ratios with their spread as Markdown, JSON and pictures; the
table of targets is printed. Parts are the keys of `compared/programme.py`, and `memory`, `first-query`, `decode`,
`idle`; a name that ends in `*` stands for all that begin so. `--quick`: small tables and few rounds, to see that
everything runs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import fnmatch
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

from rich.console import Console

from bench.avro_decode import decode_ns
from bench.compared.contestants import Cast, Contestant, Question
from bench.compared.plots import draw
from bench.compared.probes import first_queries, peaks, sent_bytes
from bench.compared.processes import Worker
from bench.compared.programme import TWO, turns
from bench.compared.report import as_json, markdown, targets_lines
from bench.compared.schedule import Turn, played
from bench.compared.tables import BenchTable, MadeTable, made, standard_tables
from bench.compared.targets import Figures, verdicts
from bench.service import idle_poll
from tests.interop.hudi_process import make_environment

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PROBES = ("memory", "first-query", "decode", "idle")
DECODED_ROWS = 40_000
console = Console(stderr=True, highlight=False)


def tell(text: str) -> None:
    """What is going on, with the time."""
    console.print(f"{dt.datetime.now(dt.UTC):%H:%M:%S} {text}", soft_wrap=True, markup=False)


def hudi_command() -> list[str | pathlib.Path]:
    """The command line of real Hudi's Spark process: the environment of the interop tests."""
    found = make_environment()
    worker = REPOSITORY / "bench" / "compared" / "spark_worker.py"
    bundle = ["--jar", str(found.jar)] if found.jar else found.bundle_arguments()
    return [found.python, "-P", worker, *bundle]


class Tables:
    """The run's tables, each made when first asked for."""

    def __init__(self, tables: dict[str, BenchTable], cast: Cast) -> None:
        self._tables, self._cast = tables, cast
        self._made: dict[str, MadeTable] = {}

    def __getitem__(self, name: str) -> MadeTable:
        if name not in self._made:
            began = time.perf_counter()
            self._made[name] = made(self._tables[name], REPOSITORY / ".cache" / "bench", self._writer)
            tell(f"table {name}: {self._tables[name].rows:,} rows ({time.perf_counter() - began:.0f} s)")
        return self._made[name]

    def _writer(self) -> Worker:
        return self._cast.worker(Contestant.HUDI_SPARK)


def measured(given: argparse.Namespace, cast: Cast, tables: Tables) -> Figures:
    """Every part that is asked for; one that fails is told, and does not take the others with it."""
    figures = Figures()

    def asked(key: str) -> bool:
        return not given.only or any(fnmatch.fnmatch(key, only) for only in given.only)

    def part(key: str, work: Callable[[], None]) -> None:
        if not asked(key):
            return
        try:
            work()
        except (AssertionError, RuntimeError) as error:
            figures.failed[key] = str(error)
            tell(f"{key} FAILED: {error}")
            cast.stop()

    wanted = [turn for turn in turns(given.rounds) if asked(turn.key)]
    needed = {turn.table for turn in wanted} | ({"plain", "big", "tiny"} if asked("memory") else set())
    for name in sorted(needed | ({"plain"} if asked("first-query") else set())):
        tables[name]
    cast.stop()  # what wrote tables has an easier start than a contestant should have
    part("decode", lambda: measure_decoding(figures))
    part("memory", lambda: measure_memory(figures, cast, tables, min(3, given.rounds)))
    part("first-query", lambda: measure_firsts(figures, cast, tables, min(3, given.rounds)))
    for turn in wanted:
        part(turn.key, partial(measure_turn, figures, cast, tables, turn))
    cast.stop()
    part("idle", lambda: measure_idle(figures, given))
    return figures


def measure_turn(figures: Figures, cast: Cast, tables: Tables, turn: Turn) -> None:
    """A comparison; where an object a record takes part, also the bytes that Python sent."""
    figures.outcomes[turn.key] = played(cast, turn, tables[turn.table], tell)
    if Contestant.PER_RECORD in turn.contestants:
        for who, sent in sent_bytes(cast, turn, tables[turn.table]).items():
            figures.sent[turn.key, who] = sent


def measure_decoding(figures: Figures) -> None:
    """Records a second, some rounds."""
    figures.decode_records_s = [1e9 / decode_ns(25, DECODED_ROWS, 3) for _ in range(5)]
    tell(f"decode: {[round(found) for found in figures.decode_records_s]} records/s")


def measure_firsts(figures: Figures, cast: Cast, tables: Tables, rounds: int) -> None:
    """First queries of fresh sessions."""
    figures.firsts = first_queries(cast, tables["plain"], rounds, tell)


def measure_idle(figures: Figures, given: argparse.Namespace) -> None:
    """An idle poll."""
    found = idle_poll(given.idle_instants, given.idle_files)
    figures.idle = (found.p50_ms, found.operations)
    tell(f"idle: p50 {found.p50_ms:.2f} ms, {found.operations:g} file operations")


def measure_memory(figures: Figures, cast: Cast, tables: Tables, rounds: int) -> None:
    """Peaks of all and of two columns over the plain table, of all over the big one."""
    arrow, pool, stream = Contestant.ARROW, Contestant.SYSTEM_POOL, Contestant.HUDI_RS_STREAM
    plain, big, tiny = tables["plain"], tables["big"], tables["tiny"]
    every = [(arrow, plain), (stream, plain), (pool, plain), (Contestant.HUDI_RS, plain), (arrow, big), (pool, big)]
    for columns, asked in (((), every), (TWO, [(arrow, plain), (stream, plain), (pool, plain)])):
        found = peaks(cast, asked, Question(columns=columns), tiny, rounds, tell)
        for (who, table), values in found.items():
            figures.peaks[who, table, "two" if columns else "all"] = values


def git(*words: str) -> str:
    """What git says, or '' where there is none."""
    result = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else ""


def about(given: argparse.Namespace, minutes: float, load: float) -> dict[str, str]:
    """When, where and with what a run was made."""
    names = ("penstock", "pyarrow", "numba", "hudi", "pyspark")
    changed = " with uncommitted changes" if git("status", "--porcelain") else ""
    peers = (REPOSITORY / "requirements" / "hudi-peer.txt").read_text().splitlines()
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    shared = f", nice {os.nice(0)}: shared with other work" if os.nice(0) else ""
    return {
        "date": f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC, {minutes:.0f} minutes",
        "commit": (git("rev-parse", "--short=12", "HEAD") or "no commit") + changed,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, {memory_gib:.0f} GiB, "
        f"Python {platform.python_version()}; load {load:.1f} before{shared}",
        "versions": ", ".join(f"{name} {version(name)}" for name in names)
        + f"; Hudi 1.2.0 on {next(line for line in peers if line.startswith('pyspark'))}",
        "sizes": f"{given.rows:,} rows, big {given.big_rows:,}; {given.rounds} rounds",
        "parts": " ".join(given.only or ["all"]),
    }


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PART")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--big-rows", type=int, help="of the table that shows memory; default 20 times the rows")
    parser.add_argument("--rounds", type=int, default=4, help="that count, behind those that warm up")
    parser.add_argument("--idle-instants", type=int, default=10_000)
    parser.add_argument("--idle-files", type=int, default=1_000_000)
    parser.add_argument("--out", type=pathlib.Path, help="folder of the report; default docs/results, of --quick none")
    given = parser.parse_args()
    if given.quick:
        given.rows, given.rounds, given.idle_instants, given.idle_files = 20_000, 1, 200, 2_000
    given.big_rows = given.big_rows or 20 * given.rows
    given.out = given.out or (None if given.quick else REPOSITORY / "docs" / "results")
    keys = [turn.key for turn in turns(1)] + list(PROBES)
    for only in given.only or ():
        if not fnmatch.filter(keys, only):
            parser.error(f"no part {only!r}; parts are {', '.join(keys)}")
    return given


def main() -> int:
    """Measures, prints the table of targets, writes the record. 1 where a part failed, or results differ."""
    given, began, load = arguments(), time.perf_counter(), os.getloadavg()[0]
    cast = Cast(hudi_command())
    try:
        figures = measured(given, cast, Tables(standard_tables(given.rows, given.big_rows), cast))
    finally:
        cast.stop()
    told = about(given, (time.perf_counter() - began) / 60, load)
    print("\n".join(targets_lines(figures)))
    if given.out:
        write(given.out, figures, told)
    print(", ".join(f"{verdict}: {count}" for verdict, count in verdicts(figures).items()))
    for key, error in figures.failed.items():
        print(f"{key} FAILED: {error}", file=sys.stderr)
    return 1 if figures.failed else 0


def write(folder: pathlib.Path, figures: Figures, told: dict[str, str]) -> None:
    """The run's record, and its pictures beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    commit = git("rev-parse", "--short=12", "HEAD") or "no-commit"
    stem = folder / f"{dt.datetime.now(dt.UTC):%Y-%m-%d-%H%M}-{commit}-bench"
    stem.with_suffix(".json").write_text(json.dumps(as_json(figures, told), indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(figures, told, draw(figures, stem)))
    print(f"written: {stem.with_suffix('.md')}")


if __name__ == "__main__":
    sys.exit(main())
