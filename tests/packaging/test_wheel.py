"""The wheel as users install it: built from a clean copy through the sdist, in an empty environment."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator

import pytest
from packaging.metadata import Metadata

from penstock.version import __version__
from tests.ops.image import lay_out_context

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
ROOMS = ("proto", "table", "kafka", "enumerator", "reader", "writer", "engine")


def package_folders() -> dict[str, str]:
    """The folder of each package, relative to the repository; links of `src/penstock` are resolved."""
    folders = {"penstock": "src/penstock", "pyspark_penstock": "src/pyspark_penstock"}
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            folder = path.parent.relative_to(REPOSITORY).as_posix()
            folders["penstock." + folder.replace("/", ".")] = folder
    return folders


PACKAGE_DIRS = package_folders()
SPARK_MODULES = ("penstock.engine.spark", "pyspark_penstock")
ADAPTERS = "penstock.engine.adapters."
"""Modules that need an engine; tests/ops/test_floors.py imports them with it."""
SYNC_TARGETS = {
    f"penstock.engine.sync.targets.{name}" for name in ("duckdb", "postgresql", "postgresql_connections", "delta")
}
"""Modules that need the extra of a target."""

IMPORT_ALL = """
import importlib, json, sys
failed = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = repr(error)
import penstock
rooms = ("penstock", "proto", "table", "enumerator", "reader", "writer", "engine")
where = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] in rooms
         and getattr(module, "__file__", None)}
print(json.dumps({"failed": failed, "where": where, "pyspark": "pyspark" in sys.modules}))
"""


def run(*command: str | pathlib.Path, cwd: pathlib.Path, stdin: str | None = None, **environment: str) -> str:
    """The command's stdout; its whole output in the failure."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PENSTOCK"))}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, **environment},
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
    return result.stdout


def modules_of_the_tree() -> set[str]:
    """Every module under the package's folders, by its dotted name."""
    return {
        package if path.stem == "__init__" else f"{package}.{path.stem}"
        for package, folder in PACKAGE_DIRS.items()
        for path in (REPOSITORY / folder).glob("*.py")
    }


@pytest.fixture(scope="session")
def clean_copy(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The files that would be committed, without leftovers of a build."""
    copy = tmp_path_factory.mktemp("copy") / "source"
    folders = [*{folder.split("/")[0] for folder in PACKAGE_DIRS.values()}, "tests", "bench", "docs"]
    copy.mkdir()
    for top in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "MANIFEST.in"):
        (copy / top).write_bytes((REPOSITORY / top).read_bytes())
    for folder in folders:
        for path in (REPOSITORY / folder).rglob("*"):
            target = copy / path.relative_to(REPOSITORY)
            if path.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(path.readlink())
            elif path.is_file() and "__pycache__" not in path.parts and "golden" not in path.parts:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
    return copy


@pytest.fixture(scope="session")
def distributions(clean_copy: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """(sdist, wheel); the wheel is built from the unpacked sdist."""
    run(sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", "dist", ".", cwd=clean_copy)
    (sdist,) = (clean_copy / "dist").glob("*.tar.gz")
    (wheel,) = (clean_copy / "dist").glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="session")
def names_in_the_wheel(distributions: tuple[pathlib.Path, pathlib.Path]) -> set[str]:
    with zipfile.ZipFile(distributions[1]) as wheel:
        return set(wheel.namelist())


@pytest.fixture(scope="session")
def names_in_the_sdist(distributions: tuple[pathlib.Path, pathlib.Path]) -> set[str]:
    """Files, by their path in the unpacked folder."""
    with tarfile.open(distributions[0]) as sdist:
        return {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}


@pytest.fixture(scope="session")
def clean_python(
    distributions: tuple[pathlib.Path, pathlib.Path], tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """The Python of a new environment with the locked dependencies, checked by hash, and the wheel: no extras, no test
    tools."""
    home = tmp_path_factory.mktemp("clean") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    install = (*pip, "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    run(*install, "--require-hashes", "-r", REPOSITORY / "requirements" / "wheel.lock", cwd=home.parent)
    run(*install, "--no-deps", distributions[1], cwd=home.parent)
    run(*pip, "check", cwd=home.parent)
    return python


@pytest.fixture
def spark_path(tmp_path: pathlib.Path) -> str:
    """A PYTHONPATH with only the packages of the extra `spark`."""
    for name in ("pyspark", "py4j"):
        spec = importlib.util.find_spec(name)
        assert spec and spec.submodule_search_locations, f"{name} is part of the extra `test`"
        (tmp_path / name).symlink_to(spec.submodule_search_locations[0])
    return str(tmp_path)


@pytest.fixture(params=["repository", "elsewhere"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """The working directory: the repository's root, which `python -c` adds to the import path, or another folder."""
    yield REPOSITORY if request.param == "repository" else tmp_path_factory.mktemp("elsewhere")


def import_all(python: pathlib.Path, modules: set[str], cwd: pathlib.Path, path: str = "") -> dict[str, object]:
    """Imports the modules in that Python: which failed, the files of the package's modules, and whether pyspark was
    imported."""
    environment = {"PYTHONPATH": path} if path else {}
    answer = run(python, "-c", IMPORT_ALL, cwd=cwd, stdin=json.dumps(sorted(modules)), **environment)
    result: dict[str, object] = json.loads(answer.splitlines()[-1])
    return result


def test_wheel_holds_exactly_the_modules_of_the_tree(names_in_the_wheel: set[str]) -> None:
    names = [name for name in names_in_the_wheel if name.endswith(".py")]
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in names}
    assert modules == modules_of_the_tree()


def test_top_level_of_the_wheel(names_in_the_wheel: set[str]) -> None:
    assert {name.split("/")[0] for name in names_in_the_wheel} == {
        "penstock",
        "pyspark_penstock",
        f"penstock-{__version__}.dist-info",
    }


def test_data_files_are_shipped_and_nothing_else(names_in_the_wheel: set[str]) -> None:
    data = {
        f"{package.replace('.', '/')}/{path.relative_to(REPOSITORY / PACKAGE_DIRS[package]).as_posix()}"
        for package, patterns in PYPROJECT["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in (REPOSITORY / PACKAGE_DIRS[package]).glob(pattern)
    }
    assert {"penstock/py.typed", "penstock/proto/v1/penstock.proto", "penstock/proto/v1/penstock_pb2.pyi"} <= data
    assert any(name.endswith(".zip") for name in data), "the demo's table"
    strangers = {name for name in names_in_the_wheel if not name.endswith(".py")} - data
    info = f"penstock-{__version__}.dist-info"
    reported = {f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt")}
    assert strangers == reported | {f"{info}/licenses/LICENSE"}
    assert data <= names_in_the_wheel


def test_wheel_of_the_tree_equals_that_of_the_sdist(
    clean_copy: pathlib.Path, distributions: tuple[pathlib.Path, pathlib.Path]
) -> None:
    """`distributions` was built through the sdist; this wheel, as `make` builds it, was not. Compares every file byte
    by byte."""
    run(sys.executable, "-P", "-m", "build", "--wheel", "--no-isolation", "--outdir", "direct", ".", cwd=clean_copy)
    (direct,) = (clean_copy / "direct").glob("*.whl")
    with zipfile.ZipFile(direct) as of_tree, zipfile.ZipFile(distributions[1]) as of_sdist:
        assert {each.filename: each.CRC for each in of_tree.infolist()} == {
            each.filename: each.CRC for each in of_sdist.infolist()
        }


def test_wheel_of_the_image_equals_that_of_the_tree(
    tmp_path: pathlib.Path, distributions: tuple[pathlib.Path, pathlib.Path]
) -> None:
    """The image builds its wheel from the files that `.dockerignore` includes. Compares every file byte by byte."""
    context = tmp_path / "context"
    lay_out_context(context)
    run(sys.executable, "-P", "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", ".", cwd=context)
    (built,) = (context / "dist").glob("*.whl")
    with zipfile.ZipFile(built) as of_image, zipfile.ZipFile(distributions[1]) as of_sdist:
        assert {file.filename: file.CRC for file in of_image.infolist()} == {
            file.filename: file.CRC for file in of_sdist.infolist()
        }


def test_sdist_holds_exactly_the_sources_of_the_wheel(
    names_in_the_sdist: set[str], names_in_the_wheel: set[str]
) -> None:
    sources = {
        f"src/{package}/{name}"
        for package, name in (split_of(each) for each in names_in_the_wheel if ".dist-info/" not in each)
    }
    tops = {"pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO", "setup.cfg"}
    built = {name for name in names_in_the_sdist if ".egg-info/" in name}
    assert names_in_the_sdist - built == sources | tops


def split_of(name: str) -> tuple[str, str]:
    """(package, the rest of the path) of a file in the wheel: data files are in folders that are not packages."""
    folder, _, rest = name.rpartition("/")
    while folder.replace("/", ".") not in PACKAGE_DIRS:
        folder, _, inner = folder.rpartition("/")
        rest = f"{inner}/{rest}"
    return folder, rest


def test_metadata_is_complete_and_valid(distributions: tuple[pathlib.Path, pathlib.Path]) -> None:
    with zipfile.ZipFile(distributions[1]) as wheel:
        text = wheel.read(f"penstock-{__version__}.dist-info/METADATA")
    reported = Metadata.from_email(text, validate=True)
    project = PYPROJECT["project"]
    assert (reported.name, str(reported.version), reported.summary) == ("penstock", __version__, project["description"])
    assert reported.description_content_type == "text/markdown"
    assert reported.description is not None
    assert reported.description.strip() == (REPOSITORY / "README.md").read_text().strip()
    assert (reported.license_expression, reported.license_files) == ("Apache-2.0", ["LICENSE"])
    assert reported.keywords and "Typing :: Typed" in (reported.classifiers or [])
    assert set(reported.provides_extra or []) == set(project["optional-dependencies"])
    unconditional = [each for each in reported.requires_dist or [] if "extra" not in str(each.marker)]
    assert len(unconditional) == len(project["dependencies"])


def test_every_module_imports_without_extras(clean_python: pathlib.Path, folder: pathlib.Path) -> None:
    modules = {name for name in modules_of_the_tree() if not name.startswith((*SPARK_MODULES, ADAPTERS))}
    assert modules > SYNC_TARGETS
    result = import_all(clean_python, modules - SYNC_TARGETS, folder)
    assert result["failed"] == {}
    assert result["pyspark"] is False
    where = result["where"]
    assert isinstance(where, dict)
    assert all(name.startswith("penstock") for name in where), where
    assert all("site-packages" in file for file in where.values()), where


def test_spark_modules_import_with_the_extra(clean_python: pathlib.Path, folder: pathlib.Path, spark_path: str) -> None:
    modules = {name for name in modules_of_the_tree() if name.startswith(SPARK_MODULES)}
    assert import_all(clean_python, modules, folder, spark_path)["failed"] == {}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("extra", ["duckdb", "postgresql", "delta"])
def test_sync_without_its_extra_names_it(clean_python: pathlib.Path, tmp_path: pathlib.Path, extra: str) -> None:
    properties = tmp_path / "lake" / "orders" / ".hoodie" / "hoodie.properties"
    properties.parent.mkdir(parents=True)
    properties.write_text("hoodie.table.name=orders\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=9\n")
    place = "user@127.0.0.1/copy" if extra == "postgresql" else "/copy"
    job = tmp_path / "job.toml"
    job.write_text(f'[[sync]]\nfrom = "{tmp_path}/lake/*"\nto = "{extra}://{place}"\n')
    command = [clean_python.parent / "penstock", "sync", job, "--once", "--format", "json"]
    done = subprocess.run([*map(str, command)], cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 2, done.stderr
    (table,) = json.loads(done.stdout)["tables"]
    assert table["state"] == "stopped"
    assert f"pip install 'penstock[{extra}]'" in table["problem"]["text"]


def test_command_runs_from_the_clean_environment(clean_python: pathlib.Path, folder: pathlib.Path) -> None:
    console = run(clean_python.parent / "penstock", "--version", cwd=folder)
    module = run(clean_python, "-m", "penstock", "--version", cwd=folder)
    assert console == module
    assert console == f"penstock {__version__}\n"
