"""One batch of mutated inputs in a separate process, so that crashes, hangs and memory growth are visible outside.

`python -m tests.fuzz.run_batch KIND FIRST COUNT PROGRESS [hypothesis]`: KIND is a corpus kind, `table`, `lance_table`,
`bombs`, `stored`, `grammar` (the decoders of `structured` in turn) or `grammar:` and a decoder's name; seeds FIRST to
FIRST + COUNT - 1 (with `hypothesis`: COUNT seeds that hypothesis draws, deterministically). PROGRESS is a file with the
current seed in its first eight bytes. Prints the batch's outcome as JSON.

Limits: address space beyond that of the warm process (RLIMIT_AS: MEMORY_BYTES, and GRAMMAR_BYTES for inputs of a few
KB), CPU_S seconds of CPU time per input (ITIMER_PROF, whose signal ends the process; LANCE_S of the clock for
`lance_table`). Kernels check their bounds (`batches.run_batch` sets NUMBA_BOUNDSCHECK).
"""

from __future__ import annotations

import collections
import json
import mmap
import os
import pathlib
import random
import resource
import signal
import sys
import traceback
import zipfile

os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # mimalloc reserves address space in advance


import penstock
from penstock.proto.errors import PenstockError
from penstock.reader.base.decoding.lance import PROCESSES
from tests.fuzz import targets
from tests.fuzz.corpus import GOLDEN, Member, kind_of, members
from tests.fuzz.mutation import mutated

MEMORY_BYTES = 768 << 20
"""The largest Parquet page and HFile block are 512 MiB."""
GRAMMAR_BYTES = 192 << 20
CPU_S = 20
TABLES = (
    "A_merge_event_long_v9_h120",
    "A_block_parquet_v9_h120",
    "A_evo_on_read_v8_h102",
    "A_rollback_log_v6_h0150",
    "A_archive_v9_h120",
    "A_mdt_all_v9_h120",
    "A_replace_ops_v9_h120",
)
LANCE_TABLES = ("H_lance_cow_v6", "H_lance_mor_v9", "H_lance_vectors_mor_v9")
LANCE_BYTES = 6 << 30
"""The library of Lance reserves 2 GiB of addresses."""
LANCE_S = 60
"""Seconds of the clock per input."""
MOST_ATTEMPTS = 20
MOST_FAILURES = 20


class Batch:
    """Runs inputs of one kind and counts their outcomes."""

    memory_bytes = MEMORY_BYTES
    timer, limit_s = signal.ITIMER_PROF, CPU_S

    def __init__(self, kind: str, progress: mmap.mmap) -> None:
        self.members = members()[kind]
        self.others = [*self.members, *(item for items in members().values() for item in items[:2])]
        self.progress = progress
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.failures: list[dict[str, object]] = []

    def member(self, seed: int) -> Member:
        """The member that a seed mutates."""
        return self.members[seed % len(self.members)]

    def verdict(self, seed: int) -> str:
        """The outcome of a seed's input."""
        member = self.member(seed)
        return self.judge(member, mutated(member, self.others, seed))

    def judge(self, member: Member, data: bytes) -> str:
        """The outcome of the bytes."""
        return targets.run(member, data)

    def warm(self) -> None:
        """Compiles kernels and imports lazily imported modules."""
        for member in self.members:
            self.judge(member, member.data)

    def run(self, seed: int) -> None:
        """Runs one input."""
        self.progress[:8] = seed.to_bytes(8, "little")
        signal.setitimer(self.timer, self.limit_s)
        try:
            self.outcomes[self.verdict(seed)] += 1
        except (Exception, RecursionError) as error:  # noqa: BLE001  whatever comes out is the finding
            self.outcomes["BUG"] += 1
            if len(self.failures) < MOST_FAILURES:
                text = traceback.format_exc()[-1500:]
                self.failures.append(
                    {"member": self.member(seed).name, "seed": seed, "error": repr(error)[:300], "trace": text}
                )
        finally:
            signal.setitimer(self.timer, 0)


class TableBatch(Batch):
    """Whole tables, each with one file mutated, read through `penstock.read`."""

    cases: tuple[str, ...] = TABLES

    def __init__(self, progress: mmap.mmap, folder: pathlib.Path) -> None:
        self.members, self.tables = [], {}
        for case in self.cases:
            self.tables[case] = folder / case
            with zipfile.ZipFile(GOLDEN / f"{case}.zip") as packed:
                packed.extractall(self.tables[case])
            for path in sorted(self.tables[case].rglob("*")):
                inside = path.relative_to(self.tables[case]).as_posix()
                if path.is_file() and not path.name.endswith(".crc"):
                    self.members.append(Member(kind_of(inside) or "", f"{case}/{inside}", path.read_bytes()))
        self.others = [item for items in members().values() for item in items[:2]]
        self.progress = progress
        self.outcomes, self.failures = collections.Counter(), []

    def member(self, seed: int) -> Member:
        return random.Random(seed).choice(self.members)

    def judge(self, member: Member, data: bytes) -> str:
        case, _, inside = member.name.partition("/")
        path = self.tables[case] / inside
        path.write_bytes(data)
        os.utime(path, (1, 1))  # no other thread uses it now
        try:
            for options in ({}, {"query": "incremental", "after": "earliest"}):
                penstock.read(self.tables[case], **options).read_all().validate()
        except PenstockError as error:
            return self.named(error)
        finally:
            path.write_bytes(member.data)
        return "answer"

    def named(self, error: PenstockError) -> str:
        """The outcome that is an error."""
        return error.code

    def warm(self) -> None:
        for case in self.cases:
            assert self.judge(next(item for item in self.members if item.name.startswith(case)), b"") is not None


class LanceBatch(TableBatch):
    """Tables, each with one mutated base file in Lance. The library decodes in child processes, to which the limit of
    memory applies too. They may start anew for each input, and their processor time is not that of this process."""

    cases = LANCE_TABLES
    memory_bytes = LANCE_BYTES
    timer, limit_s = signal.ITIMER_REAL, LANCE_S

    def verdict(self, seed: int) -> str:
        """Of a file that reaches the library: the kind `lance` has damaged footers."""
        member = self.member(seed)
        data = member.data
        for attempt in range(MOST_ATTEMPTS):
            data = mutated(member, self.others, seed * MOST_ATTEMPTS + attempt)
            if targets.run(member, data) == "answer":
                break
        return self.judge(member, data)

    def named(self, error: PenstockError) -> str:
        """LIBRARY for damage that the library found, or that ended it."""
        return "LIBRARY" if "the library of Lance failed" in str(error) else error.code

    def warm(self) -> None:
        """Also leaves out files that no query reads, the older ones of a file group."""
        files = [(*item.name.rsplit("_", 2), item) for item in self.members if item.kind == "lance"]
        newest = {group: item for group, _, _, item in sorted(files, key=lambda file: file[2])}
        self.members = list(newest.values())
        super().warm()
        PROCESSES.close()  # it started without the limit


class GrammarBatch(Batch):
    """Inputs of grammars for the decoders, which take turns. An outcome is `decoder: verdict`."""

    memory_bytes = GRAMMAR_BYTES

    def __init__(self, name: str, progress: mmap.mmap) -> None:
        from tests.fuzz import structured  # not for every kind, because it imports every decoder

        self.members, self.progress, self._judge = [], progress, structured.judge_seed
        self.decoders = [structured.DECODERS[name]] if name else list(structured.DECODERS.values())
        self.outcomes, self.failures = collections.Counter(), []

    def member(self, seed: int) -> Member:
        return Member("grammar", self.decoders[seed % len(self.decoders)].name, b"")

    def verdict(self, seed: int) -> str:
        turn, place = divmod(seed, len(self.decoders))
        decoder = self.decoders[place]
        return f"{decoder.name}: {self._judge(decoder, turn)}"

    def warm(self) -> None:
        for decoder in self.decoders:
            for seed in range(1, 11):
                self._judge(decoder, -seed)


class BombBatch(Batch):
    """Small inputs that would decode to much."""

    memory_bytes = GRAMMAR_BYTES

    def __init__(self, progress: mmap.mmap) -> None:
        from tests.fuzz import bombs

        self.members, self.progress, self._bombs = [], progress, bombs.BOMBS
        self.outcomes, self.failures = collections.Counter(), []

    def member(self, seed: int) -> Member:
        return Member("bombs", self._bombs[seed][0].__name__, b"")

    def verdict(self, seed: int) -> str:
        bomb, expected = self._bombs[seed]
        outcome: int | str
        try:
            outcome = bomb()
        except PenstockError as error:
            if "MemoryError" in str(error):
                raise
            outcome = error.code
        assert outcome == expected, f"{outcome}, expected {expected}"
        return "answer" if isinstance(outcome, int) else outcome

    def warm(self) -> None:
        from penstock.reader.read_split import warm_up

        warm_up()


class StoredBatch(Batch):
    """Stored inputs: each has its stored outcome."""

    memory_bytes = GRAMMAR_BYTES

    def __init__(self, progress: mmap.mmap) -> None:
        from tests.fuzz import stored_inputs, structured

        self.members, self.progress, self._structured = [], progress, structured
        self._inputs = stored_inputs.stored_inputs()
        self.outcomes, self.failures = collections.Counter(), []

    def member(self, seed: int) -> Member:
        return Member("stored", self._inputs[seed][0], b"")

    def verdict(self, seed: int) -> str:
        name, expected, context, data = self._inputs[seed]
        outcome, detail = self._structured.outcome_of(self._structured.DECODERS[name], data, context)
        assert outcome == expected, f"{outcome} ({str(detail)[:200]}), expected {expected}"
        return outcome

    def warm(self) -> None:
        for seed in range(len(self._inputs)):
            self.verdict(seed)


def batch_of(kind: str, progress: mmap.mmap, folder: pathlib.Path) -> Batch:
    """The batch of a kind."""
    if kind in ("table", "lance_table"):
        return (TableBatch if kind == "table" else LanceBatch)(progress, folder)
    if kind in ("bombs", "stored"):
        return BombBatch(progress) if kind == "bombs" else StoredBatch(progress)
    return GrammarBatch(kind[8:], progress) if kind.startswith("grammar") else Batch(kind, progress)


def limit_memory(most_more: int) -> None:
    """Limits the address space to a little above the current use."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + most_more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def by_hypothesis(batch: Batch, count: int) -> None:
    """Seeds that hypothesis draws, derandomized."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    @settings(
        derandomize=True, max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.integers(0, 2**40))
    def run(seed: int) -> None:
        batch.run(seed)

    run()


def main() -> None:
    """Runs the batch that the arguments name."""
    kind, first, count, progress_file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
    with progress_file.open("r+b") as file, mmap.mmap(file.fileno(), 8) as progress:
        batch = batch_of(kind, progress, progress_file.parent)
        batch.warm()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        limit_memory(batch.memory_bytes)
        if sys.argv[5:] == ["hypothesis"]:
            by_hypothesis(batch, count)
        else:
            for seed in range(first, first + count):
                batch.run(seed)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    report = {"outcomes": batch.outcomes, "failures": batch.failures, "grown_kib": grown}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
