"""Processor seconds of whole processes, from start to exit: small and large tables, with and without compiled kernels.

    python -m bench.cold [--runs 7] [--small PATH] [--large PATH]

The default tables are written by Penstock: merge-on-read, 2,000 rows with 200 updates, 1M rows with 100,000 updates.
The processes of a question take turns; the processor time is the system's, user and system. Bytecode is compiled before
the runs, as pip does it. `first`: the folder of compiled kernels is empty. Both readers must return equal numbers of
rows.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

import penstock

PENSTOCK = "import sys, penstock; print(penstock.read(sys.argv[1]).read_all().num_rows)"
HUDI_RS = (
    "import sys, hudi; table = hudi.HudiTableBuilder.from_base_uri(sys.argv[1]).build(); "
    "print(sum(batch.num_rows for batch in table.read()))"
)
LIBRARIES = "import pyarrow, pyarrow.parquet, pyarrow.compute, fastavro"
"""The libraries that a read of any table needs."""
SLOT = """
import sys
from pyspark import cloudpickle
from penstock.engine.spark.source import PenstockDataSource
source = PenstockDataSource({"path": sys.argv[1]})
reader = source.reader(source.schema())
with open(sys.argv[2], "wb") as file:
    cloudpickle.dump((reader, reader.partitions()[0]), file)
"""
"""Writes what Spark sends to the task of a table's only slot; in a process of its own, which may start a session."""
TASK = """
import pickle, sys
import pyspark.worker
with open(sys.argv[1], "rb") as file:
    reader, slot = pickle.load(file)
print(sum(batch.num_rows for batch in reader.read(slot)))
"""
"""What a new process of a task does, without Spark's own messages."""
LIMIT = ("-m", "penstock", "read", "--limit", "3")


@dataclass(frozen=True, slots=True)
class Contest:
    """Processes that are compared."""

    name: str
    """What they do."""
    programs: Mapping[str, Sequence[str]]
    """The arguments of Python by the name of the process; `first` in the name empties the folder of kernels before."""
    is_checked: bool = True
    """Whether all must print the same."""


def contests(small: str, large: str, slots: Sequence[str]) -> list[Contest]:
    """Everything that is measured; `slots`: the files of the slots of both tables."""
    readers = {"Penstock": PENSTOCK, "Penstock, first": PENSTOCK, "hudi-rs": HUDI_RS}
    return [
        *(
            Contest(f"snapshot, {name}", {reader: ("-c", code, table) for reader, code in readers.items()})
            for name, table in (("small table", small), ("large table", large))
        ),
        Contest(
            "command",
            {
                "read --limit 3, small table": (*LIMIT, small),
                "read --limit 3, large table": (*LIMIT, large),
                "--version": ("-m", "penstock", "--version"),
                "import pyarrow": ("-c", "import pyarrow"),
                "import pyarrow, its Parquet and functions, fastavro": ("-c", LIBRARIES),
                "python -c pass": ("-c", "pass"),
            },
            is_checked=False,
        ),
        Contest(
            "a Spark task's first split",
            {
                "small table": ("-c", TASK, slots[0]),
                "large table": ("-c", TASK, slots[1]),
                "import pyspark.worker, pyarrow": ("-c", "import pyspark.worker, pyarrow"),
            },
            is_checked=False,
        ),
    ]


def slot_file(folder: pathlib.Path, table: str, name: str) -> str:
    """The file of a table's only slot."""
    path = str(folder / name)
    subprocess.run([sys.executable, "-P", "-c", SLOT, table, path], check=True)
    return path


def cpu_s(arguments: Sequence[str], folder: pathlib.Path, *, is_first: bool) -> tuple[float, str]:
    """(processor seconds, output) of one process."""
    kernels = folder / ("first" if is_first else "kernels")
    if is_first:
        shutil.rmtree(kernels, ignore_errors=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "NUMBA_CACHE_DIR": str(kernels)}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([sys.executable, "-P", *arguments], stdout=output, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{arguments}: exit code {process.returncode}")
        output.seek(0)
        return used.ru_utime + used.ru_stime, output.read()


def lines(contest: Contest, folder: pathlib.Path, runs: int) -> list[str]:
    """A line of the table for each process, after one run of each that is not counted."""
    spent: dict[str, list[float]] = {name: [] for name in contest.programs}
    for run in range(runs + 1):
        outputs = set()
        for name, arguments in contest.programs.items():
            seconds, output = cpu_s(arguments, folder, is_first="first" in name)
            outputs.add(output)
            if run:
                spent[name].append(seconds)
        assert len(outputs) == 1 or not contest.is_checked, f"{contest.name}: the answers differ: {outputs}"
    base = statistics.median(spent["hudi-rs"]) if "hudi-rs" in spent else None
    result = []
    for name, values in spent.items():
        middle = statistics.median(values)
        ratio = "" if base is None else f"{middle / base:.2f}x"
        result.append(f"| {contest.name} | {name} | {middle:.2f} | {min(values):.2f}–{max(values):.2f} | {ratio} |")
    return result


def write_table(folder: pathlib.Path, rows: int, updates: int) -> str:
    """A merge-on-read table of one file group, with one log."""
    path = str(folder / f"{rows}")
    for seq, count in ((1, rows), (2, updates)):
        numbers = pa.array(range(count), pa.int64())
        texts = numbers.cast(pa.string())
        data = pa.table({"id": texts, "seq": pa.repeat(pa.scalar(seq), count), "n": numbers, "city": texts})
        if seq == 1:
            penstock.create_table(path, data.schema, record_key="id", ordering="seq", buckets=1)
        penstock.write(path, data)
    return path


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--small", default="", help="a table instead of the small one")
    parser.add_argument("--large", default="", help="a table instead of the large one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        small = args.small or write_table(folder, 2000, 200)
        large = args.large or write_table(folder, 1_000_000, 100_000)
        slots = [slot_file(folder, table, f"slot-{number}") for number, table in enumerate((small, large))]
        print("| what | process | CPU seconds, median | least to most | to hudi-rs |\n|---|---|---|---|---|")
        for contest in contests(small, large, slots):
            print(*lines(contest, folder, args.runs), sep="\n", flush=True)


if __name__ == "__main__":
    main()
