"""One batch of mutated inputs in a process of its own, so that a crash, a hang or a flood of memory is seen from outside.

`python run_batch.py KIND FIRST COUNT PROGRESS [hypothesis]`: seeds FIRST to FIRST + COUNT - 1 (with `hypothesis`: COUNT
seeds that hypothesis draws, the same ones each time). PROGRESS is a file that holds the seed at work in its first
eight bytes. Prints the batch's outcome as JSON. Limits: address space MEMORY_BYTES beyond what the warm process has
(RLIMIT_AS), CPU_S seconds of CPU time an input (ITIMER_PROF, whose signal ends the process).
"""

from __future__ import annotations

import collections
import json
import mmap
import os
import pathlib
import resource
import signal
import sys
import traceback

os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # mimalloc reserves address space ahead

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import targets
from corpus import Member, members
from mutation import mutated

MEMORY_BYTES = 512 << 20
CPU_S = 20
MOST_FAILURES = 20


class Batch:
    """Runs inputs of one kind and keeps what came of them."""

    def __init__(self, kind: str, progress: mmap.mmap) -> None:
        self.members = members()[kind]
        self.others = [*self.members, *(item for items in members().values() for item in items[:2])]
        self.progress = progress
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.failures: list[dict[str, object]] = []

    def member(self, seed: int) -> Member:
        """The member that a seed changes."""
        return self.members[seed % len(self.members)]

    def run(self, seed: int) -> None:
        """One input."""
        member = self.member(seed)
        data = mutated(member, self.others, seed)
        self.progress[:8] = seed.to_bytes(8, "little")
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        try:
            self.outcomes[targets.run(member, data)] += 1
        except (Exception, RecursionError) as error:  # noqa: BLE001  whatever comes out is the finding
            self.outcomes["BUG"] += 1
            if len(self.failures) < MOST_FAILURES:
                text = traceback.format_exc()[-1500:]
                self.failures.append({"member": member.name, "seed": seed, "error": repr(error)[:300], "trace": text})


def limit_memory() -> None:
    """Caps the address space a little above what is in use now."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY_BYTES
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
        batch = Batch(kind, progress)
        for member in batch.members:  # compiles kernels and imports what is imported late
            targets.run(member, member.data)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        limit_memory()
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
