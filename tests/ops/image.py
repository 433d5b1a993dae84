"""The image without a container engine: its Dockerfile parsed, its build context copied, its command run on a read-only
root with another uid."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
from typing import Final

from tests.ops.places import DEPLOY, REPOSITORY

UID: Final = 10001
LETS: Final = "dac_read_search"
"""The only remaining capability: the interpreter of the tests may be in a folder that only root can read."""


def instructions(text: str) -> list[tuple[str, str]]:
    """(INSTRUCTION, the rest) of a Dockerfile; continued lines in one."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], " ".join(line.split(None, 1)[1].split())) for line in lines]


def last(name: str) -> str:
    """The arguments of the last instruction with this name."""
    arguments = [rest for word, rest in instructions((DEPLOY / "Dockerfile").read_text()) if word == name]
    return arguments[-1]


def command() -> list[str]:
    """The command of a container of the image."""
    entry: list[str] = json.loads(last("ENTRYPOINT"))
    arguments: list[str] = json.loads(last("CMD"))
    return entry + arguments


def environment() -> dict[str, str]:
    """The variables of the image, except PATH."""
    return dict(pair.split("=", 1) for pair in last("ENV").split() if not pair.startswith("PATH="))


def lay_out_context(folder: pathlib.Path) -> None:
    """The files that `.dockerignore` includes in the build, as `COPY . .` does: it begins with `*`, the rest are
    exceptions."""
    first, *others = [
        line for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line and line[0] != "#"
    ]
    assert first == "*"
    ignored = shutil.ignore_patterns(*(line.removeprefix("**/") for line in others if line[0] != "!"))
    for line in others:
        if line[0] == "!":
            source, target = REPOSITORY / line[1:], folder / line[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=ignored, symlinks=True)
            else:
                shutil.copy(source, target)


def installed(context: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The `penstock` command of the wheel that is built from the context; its dependencies are this environment's."""
    pip = [sys.executable, "-m", "pip"]
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "wheels", context]
    subprocess.run([*pip, *build], check=True, timeout=240)
    (wheel,) = (folder / "wheels").glob("*.whl")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=60)
    install = ["--python", venv / "bin" / "python", "install", "--quiet", "--no-deps", wheel]
    subprocess.run([*pip, *install], check=True, timeout=120)
    (site,) = venv.glob("lib/python*/site-packages")
    seen = [*(path for path in sys.path if path.endswith("-packages")), sysconfig.get_path("purelib")]
    (site / "dependencies.pth").write_text(
        "\n".join(seen) + "\n"
    )  # after its own folder, so that penstock is the wheel's
    return venv / "bin" / "penstock"


def confining(writable: pathlib.Path) -> list[str]:
    """A prefix that runs a command as UID, without privileges, on a root that is read-only except for one folder. Empty
    if this process may not create namespaces."""
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro / && shift && exec "$@"'
    prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", str(writable), "setpriv",
              f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs",
              f"--inh-caps=-all,+{LETS}", f"--ambient-caps=-all,+{LETS}", f"--bounding-set=-all,+{LETS}"]  # fmt: skip
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True, timeout=20, check=False)
    except OSError:
        return []
    return prefix if tried.returncode == 0 and os.geteuid() == 0 else []
