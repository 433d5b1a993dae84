"""Processor time of changes of a range, beside Delta's change data feed (deltalake) and Paimon (pypaimon).

    python -m bench.peers [--rows 500000] [--commits 10] [--share 0.02] [--runs 7]

The same rows are written into each format: a load, then commits that each upsert a random share of the keys, and new
ones. A run reads what all commits after the load changed, with all columns, to Arrow:

* `changes`: each changed row before and after (Delta: its change data feed; Penstock: `query=cdc` of a merge-on-read
  table without change logs, and of a copy-on-write table with them);
* `rows`: the rows written (Paimon: each version; Penstock: `query=incremental`, the newest version of each).

The other formats run in an environment of their own, which this command makes in `.cache/bench/peers` from PyPI. The
contestants take turns, each in a process that stays; the first two runs of each are left out. Before, the numbers of
rows and the sums of a column are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import penstock
from bench.changes_range import completion_times, rows_of
from bench.peer_tables import KEY, VALUE, answer_runs, sums

CACHE: Final = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "bench"
PEERS: Final = ("deltalake==1.6.6", "pypaimon==2.1.0")
WARM_UP: Final = 2
Run = Callable[[], dict[str, float]]
"""Makes a run and returns its JSON line."""
CHANGE_LOGS, PLAIN = "Penstock, with change logs", "Penstock"
QUESTIONS: Final = {
    "changes": (("Delta", "delta", ""), (PLAIN, "merge_on_read", "cdc"), (CHANGE_LOGS, "copy_on_write", "cdc")),
    "rows": (("Paimon", "paimon", ""), (PLAIN, "merge_on_read", "incremental")),
}
"""For each question its contestants: the title, the folder of the table, and Penstock's query."""


def peers_python() -> str:
    """The interpreter of the peers' environment, which is made if it is missing."""
    folder = CACHE / "peers"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *PEERS], check=True)
        (folder / "ready").touch()
    return str(python)


def write_rows(folder: pathlib.Path, rows: int, commits: int, share: float) -> None:
    """A Parquet file for each commit. An upsert has a twentieth of new keys."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    pq.write_table(rows_of(np.arange(rows), 0), folder / "0000.parquet")
    new = max(1, int(rows * share / 20))
    for commit in range(1, commits + 1):
        known = random.choice(rows, int(rows * share), replace=False)
        ids = np.sort(np.concatenate([known, np.arange(new) + rows + (commit - 1) * new]))
        pq.write_table(rows_of(ids, commit), folder / f"{commit:04d}.parquet")


def write_hudi(path: str, table_type: str, files: list[pathlib.Path]) -> None:
    """A table of Hudi of one bucket; the one of type copy on write has change logs."""
    logging = "data_before_after" if table_type == "copy_on_write" else None
    schema = pq.read_schema(files[0])
    penstock.create_table(path, schema, record_key=KEY, ordering="ts", buckets=1, table_type=table_type,
                          change_logging=logging)  # fmt: skip
    for file in files:
        penstock.write(path, pq.read_table(file))


def make_tables(rows: int, commits: int, share: float) -> pathlib.Path:
    """The folder of the tables, written unless it is there."""
    folder = CACHE / f"peers-{rows}-{commits}-{share}"
    if not (folder / "ready").exists():
        subprocess.run(["rm", "-rf", str(folder)], check=True)
        write_rows(folder / "rows", rows, commits, share)
        files = sorted((folder / "rows").glob("*.parquet"))
        for table_type in ("merge_on_read", "copy_on_write"):
            write_hudi(str(folder / table_type), table_type, files)
        for form in ("delta", "paimon"):
            peer = [peers_python(), str(pathlib.Path(__file__).with_name("peer_tables.py"))]
            subprocess.run([*peer, "write", form, str(folder / form), str(folder / "rows")], check=True)
        (folder / "ready").touch()
    return folder


def contestant(stack: ExitStack, folder: pathlib.Path, form: str, query: str) -> Run:
    """A function that makes a run in the process of a contestant."""
    environment = dict(os.environ)
    if query:
        words = [sys.executable, "-P", "-m", "bench.peers", "--read", str(folder / form), query]
        environment["PYTHONPATH"] = str(CACHE.parent.parent)
    else:
        words = [
            peers_python(),
            str(pathlib.Path(__file__).with_name("peer_tables.py")),
            "read",
            form,
            str(folder / form),
        ]
    process = stack.enter_context(
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    )
    assert process.stdin and process.stdout
    stack.callback(process.stdin.close)
    stdin, stdout = process.stdin, process.stdout

    def run() -> dict[str, float]:
        stdin.write("\n")
        stdin.flush()
        return dict(json.loads(stdout.readline()))

    return run


def measure(folder: pathlib.Path, question: str, runs: int) -> dict[str, list[dict[str, float]]]:
    """The runs of each contestant, in turn."""
    with ExitStack() as stack:
        readers = {title: contestant(stack, folder, form, query) for title, form, query in QUESTIONS[question]}
        rounds = [{title: run() for title, run in readers.items()} for _ in range(WARM_UP + runs)]
    return {title: [one[title] for one in rounds[WARM_UP:]] for title in readers}


def newest_sums(folder: pathlib.Path) -> dict[str, int]:
    """The sums of the newest version of each row that a commit after the load wrote."""
    newest: dict[str, int] = {}
    for file in sorted((folder / "rows").glob("*.parquet"))[1:]:
        table = pq.read_table(file, columns=[KEY, VALUE])
        newest.update(zip(table[KEY].to_pylist(), table[VALUE].to_pylist(), strict=True))
    return {"rows": len(newest), "sum": sum(newest.values())}


def check(folder: pathlib.Path, figures: Mapping[str, Mapping[str, list[dict[str, float]]]]) -> None:
    """All contestants returned the same changes, and the written rows. Exits if not."""
    versions = sums(batch for file in sorted((folder / "rows").glob("*.parquet"))[1:]
                    for batch in pq.read_table(file).to_batches())  # fmt: skip
    expected = {"Paimon": versions, PLAIN: newest_sums(folder)}
    for title, of_rows in figures.get("rows", {}).items():
        _require_equal(title, of_rows, expected[title])
    changes = figures.get("changes", {})
    for title, of_changes in changes.items():
        _require_equal(title, of_changes, changes[PLAIN][0])


def _require_equal(title: str, runs: list[dict[str, float]], expected: Mapping[str, float]) -> None:
    for run in runs:
        if any(run[name] != expected[name] for name in ("rows", "sum")):
            raise SystemExit(f"{title} returned {run}, expected {dict(expected)}")


def main() -> None:
    """Prints a table; a ratio is that of the contestant's processor time to that of Penstock's first line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--commits", type=int, default=10)
    parser.add_argument("--share", type=float, default=0.02)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        path, query = args.read
        after = completion_times(path)[0]
        answer_runs(lambda: iter(penstock.read(path, query=query, after=after)))
        return
    folder = make_tables(args.rows, args.commits, args.share)
    figures = {question: measure(folder, question, args.runs) for question in QUESTIONS}
    check(folder, figures)
    report = Table("question", "contestant", "rows", "CPU s (spread)", "to Penstock (spread)",
                   title=f"{args.rows:,} rows, {args.commits} commits of {args.share:.0%}")  # fmt: skip
    for question, of_question in figures.items():
        for title, runs in of_question.items():
            seconds = [run["cpu_s"] for run in runs]
            ratios = [run["cpu_s"] / base["cpu_s"] for run, base in zip(runs, of_question[PLAIN], strict=True)]
            report.add_row(question, title, f"{runs[0]['rows']:,}", _spread(seconds), _spread(ratios))
    Console(width=120).print(report)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


if __name__ == "__main__":
    main()
