"""Writes requirements/*.lock: every dependency of a release at one version, with the SHA-256 of each of its files.

    python tools/lock_dependencies.py            compiles the locks, at the versions of requirements/constraints.txt
    python tools/lock_dependencies.py --check    fails if a lock is not up to date

`wheel.lock` has the dependencies of the wheel, `image.lock` also those of the image's extras, `build.lock` those of the
build. uv reads the package index. No lock names an index.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
from typing import Final

REPOSITORY: Final = pathlib.Path(__file__).resolve().parents[1]
FOLDER: Final = REPOSITORY / "requirements"
IMAGE_EXTRAS: Final = ("server", "kafka")
PYTHON: Final = "3.11"
LOCKS: Final[dict[str, tuple[str, ...]]] = {
    "wheel.lock": ("pyproject.toml",),
    "image.lock": ("pyproject.toml", *(f"--extra={extra}" for extra in IMAGE_EXTRAS)),
    "build.lock": ("requirements/build.txt",),
}
HEAD: Final = "# Written by tools/lock_dependencies.py: pip install --require-hashes -r requirements/{name}\n"


def compiled(name: str) -> str:
    """The content of the lock, compiled now."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / name
        subprocess.run(
            [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-header",
             "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--no-config",
             f"--python-version={PYTHON}", "--python-platform=linux", "--constraints=requirements/constraints.txt",
             f"--output-file={target}", *LOCKS[name]],
            cwd=REPOSITORY,
            check=True,
        )  # fmt: skip
        return HEAD.format(name=name) + target.read_text()


def main(arguments: list[str]) -> int:
    """0, or 1 if `--check` finds a lock that is not up to date."""
    stale = []
    for name in LOCKS:
        text, path = compiled(name), FOLDER / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text)
    if stale and "--check" in arguments:
        sys.stderr.write(f"penstock: not up to date: {', '.join(stale)}: run python tools/lock_dependencies.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
