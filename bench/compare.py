"""Compares Penstock with other readers of Hudi tables: `make bench`.

    python -m bench.compare [--only PART …] [--quick] [--rows 1000000] [--rounds 4] [--out docs/results]

Writes its tables with Hudi 1.2.0 (once; cached in `.cache/bench`), checks that all readers return equal rows and use
the code path they are named after, runs them in turn, and writes ratios with their spread as Markdown, JSON and
pictures. Prints the table of targets. Parts are the keys of `compared/programme.py`, and `memory`, `first-query`,
`decode`, `idle`; a trailing `*` is a wildcard. `--quick` uses small tables and few rounds, to check that every part
runs.
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
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version

from rich.console import Console

from bench.avro_decode import decode_ns
from bench.compared import hudi_rs_crate
from bench.compared.contestants import Cast, Contestant, Question
from bench.compared.plots import draw
from bench.compared.probes import first_queries, peaks, sent_bytes
from bench.compared.processes import Worker
from bench.compared.programme import TWO, turns
from bench.compared.report import as_json, markdown, targets_lines
from bench.compared.schedule import Turn, play
from bench.compared.tables import BenchTable, PreparedTable, ensure_table, standard_tables
from bench.compared.targets import Figures, verdicts
from bench.service import idle_poll
from tests.interop.hudi_process import make_environment

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PROBES = ("memory", "first-query", "decode", "idle")
console = Console(stderr=True, highlight=False)


def log(text: str) -> None:
    """Prints a progress line with the time."""
    console.print(f"{dt.datetime.now(dt.UTC):%H:%M:%S} {text}", soft_wrap=True, markup=False)


def hudi_command() -> list[str | pathlib.Path]:
    """The command line of the Spark process with Hudi's bundle, in the environment of the interop tests."""
    environment = make_environment()
    worker = REPOSITORY / "bench" / "compared" / "spark_worker.py"
    bundle = ["--jar", str(environment.jar)] if environment.jar else environment.bundle_arguments()
    return [environment.python, "-P", worker, *bundle]


class Tables:
    """The run's tables; each is written on first access."""

    def __init__(self, tables: dict[str, BenchTable], cast: Cast) -> None:
        self._tables, self._cast = tables, cast
        self._prepared: dict[str, PreparedTable] = {}

    def __getitem__(self, name: str) -> PreparedTable:
        if name not in self._prepared:
            began = time.perf_counter()
            self._prepared[name] = ensure_table(self._tables[name], REPOSITORY / ".cache" / "bench", self._writer)
            log(f"table {name}: {self._tables[name].rows:,} rows ({time.perf_counter() - began:.0f} s)")
        return self._prepared[name]

    def _writer(self) -> Worker:
        return self._cast.worker(Contestant.HUDI_SPARK)


def measure_all(args: argparse.Namespace, cast: Cast, tables: Tables) -> Figures:
    """Runs the selected parts. A part that fails is recorded in `failed`; the others still run."""
    figures = Figures()

    def is_selected(key: str) -> bool:
        return not args.only or any(fnmatch.fnmatch(key, only) for only in args.only)

    def part(key: str, work: Callable[[], None]) -> None:
        if not is_selected(key):
            return
        try:
            work()
        except (AssertionError, RuntimeError) as error:
            figures.failed[key] = str(error)
            log(f"{key} FAILED: {error}")
            cast.stop()

    selected = [turn for turn in turns(args.rounds, has_crate=hudi_rs_crate.is_built()) if is_selected(turn.key)]
    needed = {turn.table for turn in selected} | ({"plain", "big", "tiny"} if is_selected("memory") else set())
    for name in sorted(needed | ({"plain"} if is_selected("first-query") else set())):
        tables[name]
    cast.stop()  # a warm writer process would start with an advantage
    part("decode", lambda: measure_decoding(figures))
    part("memory", lambda: measure_memory(figures, cast, tables, min(3, args.rounds)))
    part("first-query", lambda: measure_firsts(figures, cast, tables, min(3, args.rounds)))
    for turn in selected:
        part(turn.key, partial(measure_turn, figures, cast, tables, turn))
    cast.stop()
    part("idle", lambda: measure_idle(figures, args))
    return figures


def measure_turn(figures: Figures, cast: Cast, tables: Tables, turn: Turn) -> None:
    """Runs a comparison; with the per-record source as a contestant, also measures the bytes that Python sent."""
    figures.outcomes[turn.key] = play(cast, turn, tables[turn.table], log)
    if Contestant.PER_RECORD in turn.contestants:
        for who, sent in sent_bytes(cast, turn, tables[turn.table]).items():
            figures.sent[turn.key, who] = sent


def measure_decoding(figures: Figures) -> None:
    """Decoded records per second, in five rounds."""
    figures.decode_records_s = [1e9 / decode_ns(25, 3) for _ in range(5)]
    log(f"decode: {[round(rate) for rate in figures.decode_records_s]} records/s")


def measure_firsts(figures: Figures, cast: Cast, tables: Tables, rounds: int) -> None:
    """First queries of fresh sessions."""
    figures.firsts = first_queries(cast, tables["plain"], rounds, log)


def measure_idle(figures: Figures, args: argparse.Namespace) -> None:
    """An idle poll."""
    poll = idle_poll(args.idle_instants, args.idle_files)
    figures.idle = (poll.p50_ms, poll.operations)
    log(f"idle: p50 {poll.p50_ms:.2f} ms, {poll.operations:g} file operations")


def measure_memory(figures: Figures, cast: Cast, tables: Tables, rounds: int) -> None:
    """Peak memory: all columns and two columns of table `plain`, all columns of table `big`."""
    arrow, pool, stream = Contestant.ARROW, Contestant.SYSTEM_POOL, Contestant.HUDI_RS_STREAM
    plain, big, tiny = tables["plain"], tables["big"], tables["tiny"]
    every = [(arrow, plain), (stream, plain), (pool, plain), (Contestant.HUDI_RS, plain), (arrow, big), (pool, big)]
    for columns, readers in (((), every), (TWO, [(arrow, plain), (stream, plain), (pool, plain)])):
        measured_peaks = peaks(cast, readers, Question(columns=columns), tiny, rounds, log)
        for (who, table), values in measured_peaks.items():
            figures.peaks[who, table, "two" if columns else "all"] = values


def git(*words: str) -> str:
    """The output of a git command, or '' if it fails."""
    result = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else ""


def run_details(minutes: float, load: float, sizes: str, parts: Sequence[str] | None) -> dict[str, str]:
    """Date, commit, machine, versions, sizes and parts of a run. load: before it."""
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
        "sizes": sizes,
        "parts": " ".join(parts or ["all"]),
    }


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PART")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument(
        "--big-rows", type=int, help="rows of the table `big`, for peak memory; default 20 times --rows"
    )
    parser.add_argument("--rounds", type=int, default=4, help="counted rounds, after the warm-up rounds")
    parser.add_argument("--idle-instants", type=int, default=10_000)
    parser.add_argument("--idle-files", type=int, default=1_000_000)
    parser.add_argument(
        "--out", type=pathlib.Path, help="folder of the report; default docs/results, none with --quick"
    )
    args = parser.parse_args()
    if args.quick:
        args.rows, args.rounds, args.idle_instants, args.idle_files = 20_000, 1, 200, 2_000
    args.big_rows = args.big_rows or 20 * args.rows
    args.out = args.out or (None if args.quick else REPOSITORY / "docs" / "results")
    keys = [turn.key for turn in turns(1)] + list(PROBES)
    for only in args.only or ():
        if not fnmatch.filter(keys, only):
            parser.error(f"no part {only!r}; parts are {', '.join(keys)}")
    return args


def main() -> int:
    """Measures, prints the table of targets and writes the report. Returns 1 if a part failed or results differ."""
    args, began, load = arguments(), time.perf_counter(), os.getloadavg()[0]
    cast = Cast(hudi_command())
    try:
        figures = measure_all(args, cast, Tables(standard_tables(args.rows, args.big_rows), cast))
    finally:
        cast.stop()
    sizes = f"{args.rows:,} rows, big {args.big_rows:,}; {args.rounds} rounds"
    details = run_details((time.perf_counter() - began) / 60, load, sizes, args.only)
    print("\n".join(targets_lines(figures)))
    if args.out:
        write(args.out, figures, details)
    print(", ".join(f"{verdict}: {count}" for verdict, count in verdicts(figures).items()))
    for key, error in figures.failed.items():
        print(f"{key} FAILED: {error}", file=sys.stderr)
    return 1 if figures.failed else 0


def write(folder: pathlib.Path, figures: Figures, details: dict[str, str]) -> None:
    """Writes the run's report as Markdown and JSON, and its pictures in the same folder."""
    folder.mkdir(parents=True, exist_ok=True)
    commit = git("rev-parse", "--short=12", "HEAD") or "no-commit"
    stem = folder / f"{dt.datetime.now(dt.UTC):%Y-%m-%d-%H%M}-{commit}-bench"
    stem.with_suffix(".json").write_text(json.dumps(as_json(figures, details), indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(figures, details, draw(figures, stem)))
    print(f"written: {stem.with_suffix('.md')}")


if __name__ == "__main__":
    sys.exit(main())
