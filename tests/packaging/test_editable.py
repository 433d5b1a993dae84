"""A plain editable install (`pip install -e .`): Python, type checkers and Spark find every module."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

from tests.packaging.test_wheel import PACKAGE_DIRS, REPOSITORY, clean_copy, import_all, modules_of_the_tree, run

__all__ = ["clean_copy"]

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]

FIND_SOURCES = """
import io, pickle, sys
from pyspark.serializers import read_int
from pyspark.sql.worker.lookup_data_sources import _main
answer = io.BytesIO()
_main(io.BytesIO(), answer)
answer.seek(0)
for _ in range(read_int(answer)):
    name = answer.read(read_int(answer)).decode()
    source = pickle.loads(answer.read(read_int(answer)))
    print(name, source.__qualname__, sys.modules["pyspark_penstock"].__file__)
"""
"""Looks up data sources with the function that Spark runs in a process of the driver's Python, and prints them."""


@pytest.fixture(scope="module")
def checkout(clean_copy: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A separate copy, because an editable install writes its metadata into the tree."""
    return pathlib.Path(shutil.copytree(clean_copy, tmp_path_factory.mktemp("editable") / "source", symlinks=True))


@pytest.fixture(scope="module")
def python(checkout: pathlib.Path) -> pathlib.Path:
    """The Python of a new environment with the editable package; its dependencies come from this environment."""
    home = checkout.parent / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=checkout)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    (site,) = home.glob("lib/python*/site-packages")
    install = (*pip, "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    dependencies = [path for path in sys.path if path.endswith("-packages")]
    (site / "dependencies.pth").write_text("\n".join([*dependencies, sysconfig.get_path("purelib")]) + "\n")
    run(*install, "-e", ".", cwd=checkout)
    return python


def test_python_imports_every_module_from_the_checkout(python: pathlib.Path, checkout: pathlib.Path) -> None:
    result = import_all(python, modules_of_the_tree(), checkout.parent)
    assert result["failed"] == {}
    where = result["where"]
    assert isinstance(where, dict)
    assert all(name.startswith("penstock") for name in where), where
    assert all(pathlib.Path(file).is_relative_to(checkout / "src" / "penstock") for file in where.values()), where


def test_spark_finds_the_data_source(python: pathlib.Path, checkout: pathlib.Path) -> None:
    name, source, file = run(python, "-c", FIND_SOURCES, cwd=checkout.parent).split()
    assert (name, source) == ("penstock", "PenstockDataSource")
    assert pathlib.Path(file) == checkout / "src" / "pyspark_penstock" / "__init__.py"


@pytest.fixture(scope="module")
def user_program(checkout: pathlib.Path) -> pathlib.Path:
    """A program elsewhere that imports every module, and one that does not exist."""
    folder = checkout.parent / "program"
    folder.mkdir()
    modules = sorted(name for name in modules_of_the_tree() if "_pb2" not in name)
    lines = ["import penstock.no_such_module", *(f"import {name}" for name in modules)]
    lines += ["from penstock.proto.errors import no_such_error", "reveal_type(penstock.Consumer.poll)"]
    (folder / "program.py").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.long
def test_mypy_resolves_every_module(python: pathlib.Path, user_program: pathlib.Path) -> None:
    command = [sys.executable, "-P", "-m", "mypy", "--python-executable", python, "--follow-imports", "silent",
               "--cache-dir", user_program / "cache", "program.py"]  # fmt: skip
    output = checked_output(command, user_program)
    assert output.count("error:") == 2, output
    assert 'module named "penstock.no_such_module"' in output or "penstock.no_such_module" in output
    assert "ConsumedBatch | None" in output, output


@pytest.mark.long
def test_pyright_resolves_every_module(python: pathlib.Path, user_program: pathlib.Path) -> None:
    checker = pathlib.Path(sysconfig.get_path("scripts")) / "basedpyright"
    if not checker.exists():
        (site,) = (path for path in map(pathlib.Path, sys.path) if (path / "basedpyright").is_dir())
        checker = site.parents[2] / "bin" / "basedpyright"
    (user_program / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "basic"}))
    output = checked_output([checker, "--pythonpath", python, "program.py"], user_program)
    assert output.count("- error:") == 2, output
    assert "penstock.no_such_module" in output and "no_such_error" in output
    assert "ConsumedBatch | None" in output, output


def checked_output(command: list[str | pathlib.Path], folder: pathlib.Path) -> str:
    """The output of a type checker, which fails because the program has errors."""
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_links_are_relative_and_lead_to_every_package_folder() -> None:
    for package, folder in PACKAGE_DIRS.items():
        assert (REPOSITORY / "src" / package.replace(".", "/")).resolve() == (REPOSITORY / folder).resolve()
