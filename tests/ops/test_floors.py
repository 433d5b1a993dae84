"""The package imports, reads and serves with exactly the lower bounds of pyproject.toml.

The environment with these versions is created once and kept in .cache/floors under the digest of the bounds. Transitive
dependencies have the newest version that fits, as for a user who installs today. Spark's bound is not tested: the Spark
suites run with their own version.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import penstock
from penstock.enumerator.server.auth.tokens import new_token
from tests.faults.served import end, until
from tests.ops.places import REPOSITORY
from tests.progress import PROGRESS_S

pytestmark = [pytest.mark.ops, pytest.mark.golden, pytest.mark.timeout(3 * PROGRESS_S)]
CASE = "A_merge_event_long_v9_h120"
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
EXTRAS = ("server", "kafka", "hive", "polars", "duckdb", "daft", "ray", "postgresql", "delta", "lance")
IMPORT_ALL = """
import importlib, json, sys
failed = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = repr(error)
print(json.dumps(failed))
"""
INSTALLED = """
import importlib.metadata, json
print(json.dumps([(one.name, one.version) for one in importlib.metadata.distributions()]))
"""


def bounds() -> list[str]:
    """NAME==VERSION of each lower bound. Fails for a dependency without one."""
    project = PROJECT["project"]
    needed = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    pins = []
    for requirement in map(Requirement, needed):
        (floor,) = [specifier.version for specifier in requirement.specifier if specifier.operator == ">="]
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        pins.append(f"{requirement.name}{extras}=={floor}")
    return sorted(pins)


@pytest.fixture(scope="module")
def python() -> pathlib.Path:
    """The interpreter of an environment with the bounds installed, without the package."""
    pins = bounds()
    home = REPOSITORY / ".cache" / "floors" / hashlib.sha256("\n".join(pins).encode()).hexdigest()[:16]
    interpreter = home / "bin" / "python"
    if not (home / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", home], check=True, timeout=120)
        install = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            interpreter,
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
        ]
        subprocess.run([*install, *pins], check=True, timeout=2 * PROGRESS_S)
        (home / "complete").touch()
    return interpreter


@pytest.fixture(scope="module")
def environment(python: pathlib.Path) -> dict[str, str]:
    """Puts the package under test on the path, without its dependencies: Python ignores `.pth` files there."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PENSTOCK"))}
    kernels = str(python.parents[1] / "kernels")
    return {**clean, "PYTHONPATH": str(pathlib.Path(penstock.__file__).parents[1]), "NUMBA_CACHE_DIR": kernels}


def module_names(folder: pathlib.Path, package: str) -> Iterator[str]:
    """Names of all modules below `folder`, except `__main__` and those that need Spark. Follows links to folders."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and (path / "__init__.py").exists() and "spark" not in path.name:
            yield from module_names(path, f"{package}.{path.name}")
        elif path.name == "__init__.py":
            yield package
        elif path.suffix == ".py" and path.stem not in ("spark", "__main__"):
            yield f"{package}.{path.stem}"


def run(python: pathlib.Path, environment: dict[str, str], *arguments: str, input_text: str = "") -> str:
    result = subprocess.run(
        [python, "-P", *arguments],
        env=environment,
        input=input_text,
        capture_output=True,
        text=True,
        timeout=PROGRESS_S,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout


def test_every_module_imports_with_the_bounds_and_nothing_else(
    python: pathlib.Path, environment: dict[str, str]
) -> None:
    distributions = json.loads(run(python, environment, "-c", INSTALLED))
    installed = {canonicalize_name(name): Version(version) for name, version in distributions}
    for name, floor in (pin.split("==") for pin in bounds()):
        assert installed[canonicalize_name(Requirement(name).name)] == Version(floor), name
    names = list(module_names(pathlib.Path(environment["PYTHONPATH"]) / "penstock", "penstock"))
    assert len(names) > 300
    assert json.loads(run(python, environment, "-c", IMPORT_ALL, input_text=json.dumps(names))) == {}


def test_command_line_reads_the_rows_of_this_process(
    python: pathlib.Path, environment: dict[str, str], golden: Any
) -> None:
    table = str(golden.table(CASE))
    expected = penstock.read(table, where="v > 3").read_all().to_pylist()
    command = ("-m", "penstock", "read", table, "--where", "v > 3", "--format", "jsonl")
    rows = [json.loads(line) for line in run(python, environment, *command).splitlines()]
    assert rows and sorted(map(repr, (row["id"] for row in rows))) == sorted(repr(row["id"]) for row in expected)
    for help_of in ([], ["groups", "reset"]):
        assert "Usage" in run(python, environment, "-m", "penstock", *help_of, "--help")


def test_server_with_configuration_tokens_and_metrics_is_read(
    python: pathlib.Path, environment: dict[str, str], golden: Any, tmp_path: pathlib.Path
) -> None:
    token, line = new_token("reader")
    (tmp_path / "tokens").write_text(line + "\n")
    (tmp_path / "token").write_text(token)
    (tmp_path / "penstock.toml").write_text(
        f'tokens = "{tmp_path}/tokens"\nstate = "{tmp_path}/state"\nmetricsListen = "127.0.0.1:0"\nreflection = true\n'
        f'[tables]\nt = "{golden.table(CASE)}"\n'
        '[[acl]]\nprincipal = "token:reader"\nrights = ["read", "plan", "consume"]\n'
    )
    command = [python, "-P", "-m", "penstock", "serve", "--config", tmp_path / "penstock.toml"]
    with (tmp_path / "address").open("w") as out, (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=log, text=True)
    try:
        until(lambda: process.poll() is not None or (tmp_path / "address").read_text().endswith("\n"), "the address")
        assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
        server = {
            "PENSTOCK_SERVER": (tmp_path / "address").read_text().split()[-1],
            "PENSTOCK_SERVER_TOKEN": str(tmp_path / "token"),
        }
        rows = run(python, environment | server, "-m", "penstock", "read", "t", "--format", "jsonl").splitlines()
        assert len(rows) == penstock.read(str(golden.table(CASE))).read_all().num_rows
        tail = ("tail", "t", "--group", "g", "--exit-at-end", "--format", "jsonl")
        assert len(run(python, environment | server, "-m", "penstock", *tail).splitlines()) == len(rows)
        assert "running" in run(python, environment | server, "-m", "penstock", "groups", "list")
    finally:
        end(process)
