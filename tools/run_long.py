"""`make long` and `make soak`: tests marked `long`, with a seed that is written down, and the run's record under
docs/results/, with the files that the tests put into the folder PENSTOCK_KEPT.

PENSTOCK_SEED chooses the seed; otherwise it is drawn. Arguments are handed to pytest (paths: a part of it, recorded as
such). Needs the environment `make` sets up; starts pytest as a process.
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
RECORDED = ("penstock", "pyarrow", "numba", "fastavro", "pyspark", "hypothesis")


def git(*arguments: str) -> str:
    """What git says, or '' where there is none."""
    result = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else ""


def run_tests(seed: int, kept: pathlib.Path) -> tuple[int, str]:
    """Runs the suite, passing its output on; exit status, what tests noted in the file PENSTOCK_NOTES, what histories
    say, and the last lines, from the slowest tests on. What tests keep goes into the folder `kept`."""
    with tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder) / "notes"
        notes.touch()
        status, tail = _run_tests(seed, notes, kept)
        return status, f"{notes.read_text()}\n{tail}"


def _run_tests(seed: int, notes: pathlib.Path, kept: pathlib.Path) -> tuple[int, str]:
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
        "PENSTOCK_KEPT": str(kept),
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
    """The text without the folders of this machine's paths."""
    return re.sub(r"(?:file:)?(?<![\w.…/])/(?:[\w.@+-]+/)+", "…/", text)


def record(seed: int, status: int, tail: str, kept: pathlib.Path) -> pathlib.Path:
    """Writes the run's record, and beside it what the tests kept; its path."""
    commit = git("rev-parse", "--short=12", "HEAD") or "no-commit"
    changed = " with uncommitted changes" if git("status", "--porcelain") else ""
    now = dt.datetime.now(dt.UTC)
    versions = ", ".join(f"{name} {version(name)}" for name in RECORDED)
    text = f"""# Long run of {now:%Y-%m-%d %H:%M} UTC

* commit: {commit}{changed}
* seed: {seed}
* part: {" ".join(sys.argv[1:]) or "all of it"}
* outcome: {"passed" if status == 0 else f"failed (exit {status})"}
* machine: {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}
* versions: {versions}

```
{without_folders(tail.strip())}
```
"""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d-%H%M}-{commit}.md"
    for file in sorted(kept.iterdir()):
        beside = path.with_name(f"{path.stem}-{file.name}")
        shutil.copyfile(file, beside)
        text += f"\n{'!' if file.suffix == '.svg' else ''}[{file.name}]({beside.name})\n"
    path.write_text(text)
    return path


def main() -> int:
    """Exit status of the suite; 0 where nothing is marked `long`."""
    seed = int(os.environ.get("PENSTOCK_SEED") or random.SystemRandom().randrange(2**31))
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(folder)
        status, tail = run_tests(seed, kept)
        if status == NO_TESTS:
            print("no test is marked long: nothing to record")
            return 0
        print(f"recorded in {record(seed, status, tail, kept).relative_to(REPOSITORY)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
