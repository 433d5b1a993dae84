"""`make long` and `make soak`: runs the tests marked `long` and writes a record of the run under docs/results/.

The record names the seed (the environment variable PENSTOCK_SEED, otherwise random) and the arguments, which are
passed to pytest. Files that tests write to the folder PENSTOCK_KEPT are copied beside the record. Needs the environment
of `make`; starts pytest as a process.
"""

from __future__ import annotations

import datetime as dt
import os
import pathlib
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "docs" / "results"
NO_TESTS = 5
OUTCOMES = {0: "passed", 2: "interrupted: the numbers are those of the tests that had ended"}
"""What the exit status of pytest says."""
RECORDED = ("penstock", "pyarrow", "numba", "fastavro", "pyspark", "hypothesis")


def git(*arguments: str) -> str:
    """The output of a git command; empty if it fails."""
    result = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else ""


def run_tests(seed: int, artifacts: pathlib.Path) -> tuple[int, str]:
    """Runs the suite and prints its output; the exit status, and the text of the record.

    The text has the content of the file PENSTOCK_NOTES, the lines of histories, and the last lines of the output, from
    the slowest tests on. Tests write their files to the folder `artifacts`.
    """
    with tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder) / "notes"
        notes.touch()
        status, tail = _run_tests(seed, notes, artifacts)
        return status, f"{notes.read_text()}\n{tail}"


def _run_tests(seed: int, notes: pathlib.Path, artifacts: pathlib.Path) -> tuple[int, str]:
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-m",
        "long",
        f"--hypothesis-seed={seed}",
        "--durations=20",
        *sys.argv[1:],
    ]
    environment = {
        **os.environ,
        "PENSTOCK_SEED": str(seed),
        "PENSTOCK_NOTES": str(notes),
        "PENSTOCK_KEPT": str(artifacts),
    }
    lines: list[str] = []
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    first = next((number for number, line in enumerate(lines) if "slowest" in line), max(0, len(lines) - 5))
    histories = [line for line in lines[:first] if line.startswith("histories")]
    return process.returncode, "".join([*histories, *lines[first:]])


def without_folders(text: str) -> str:
    """The text with absolute paths shortened to file names."""
    return re.sub(r"(?:file:)?(?<![\w.…/])/(?:[\w.@+-]+/)+", "…/", text)


def record(seed: int, status: int, tail: str, artifacts: pathlib.Path) -> pathlib.Path:
    """Writes the record, with copies of the artifacts beside it; the path of the record."""
    commit = git("rev-parse", "--short=12", "HEAD") or "no-commit"
    changed = " with uncommitted changes" if git("status", "--porcelain") else ""
    now = dt.datetime.now(dt.UTC)
    versions = ", ".join(f"{name} {version(name)}" for name in RECORDED)
    text = f"""# Long run of {now:%Y-%m-%d %H:%M} UTC

* commit: {commit}{changed}
* seed: {seed}
* part: {without_folders(" ".join(sys.argv[1:])) or "all of it"}
* outcome: {OUTCOMES.get(status, f"failed (exit {status})")}
* machine: {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}
* versions: {versions}

```
{without_folders(tail.strip())}
```
"""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d-%H%M}-{commit}.md"
    for file in sorted(artifacts.iterdir()):
        copy = path.with_name(f"{path.stem}-{file.name}")
        shutil.copyfile(file, copy)
        text += f"\n{'!' if file.suffix == '.svg' else ''}[{file.name}]({copy.name})\n"
    path.write_text(text)
    return path


def main() -> int:
    """The exit status of the suite; 0 if no test is marked `long`."""
    seed = int(os.environ.get("PENSTOCK_SEED") or random.SystemRandom().randrange(2**31))
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        artifacts = pathlib.Path(folder)
        status, tail = run_tests(seed, artifacts)
        if status == NO_TESTS:
            print("no test is marked long: nothing to record")
            return 0
        print(f"recorded in {record(seed, status, tail, artifacts).relative_to(REPOSITORY)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
