"""Each test runs in exactly one part of `make test` and `make test-rest`."""

from __future__ import annotations

import itertools
import os
import pathlib
import sys
from collections.abc import Collection

import pytest
from _pytest.mark.expression import Expression

from tests import conftest
from tools import run_suites
from tools.run_suites import (
    MARKERS_WITH_JVM,
    PATHS_WITH_JVM,
    REPOSITORY,
    SELECTIONS,
    WITH_JVM,
    WITHOUT_JVM,
    Part,
    may_repeat,
    not_collected,
    parts,
    run,
)


def parts_of(markers: Collection[str], suites: tuple[str, ...]) -> list[str]:
    """The suites whose selection includes a test with these markers."""
    return [text for text in suites if Expression.compile(text).evaluate(lambda name: name in markers)]


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(
    "markers",
    [names for count in range(len(MARKERS_WITH_JVM) + 1) for names in itertools.combinations(MARKERS_WITH_JVM, count)],
    ids=lambda names: "-".join(names) or "none",
)
def test_suites_together_include_each_test_once(markers: tuple[str, ...], selection: str) -> None:
    assert len(parts_of(markers, (WITHOUT_JVM, *WITH_JVM[selection]))) == 1
    assert len(parts_of(markers, tuple(SELECTIONS.values()))) == 1


def test_check_reports_a_test_in_two_suites_or_none() -> None:
    assert parts_of({"spark", "interop"}, ("spark", "interop")) == ["spark", "interop"]
    assert parts_of({"packaging"}, ("spark", "interop")) == []


@pytest.mark.parametrize("selection", SELECTIONS)
def test_processes_with_jvm_collect_only_their_paths(selection: str, tmp_path: pathlib.Path) -> None:
    without_jvm, *with_jvm, _ = parts(selection, {}, tmp_path)
    assert all(set(PATHS_WITH_JVM) <= set(part.command) for part in with_jvm)
    assert not set(PATHS_WITH_JVM) & set(without_jvm.command)
    assert all((REPOSITORY / path).exists() for path in PATHS_WITH_JVM)


@pytest.mark.parametrize(
    ("path", "markers", "expected"),
    [
        ("tests/spark/test_stream.py", {"spark"}, False),
        ("tests/engines/test_ray.py", {"ray", "exhaustive"}, False),
        ("tests/engines/test_rows.py", {"ray"}, True),
        ("tests/unit/table/test_a.py", {"interop", "golden"}, True),
        ("tests/sparkling/test_a.py", {"spark"}, True),
        ("tests/unit/table/test_a.py", {"golden"}, False),
        ("tests/s3/test_spark_on_s3.py", {"spark", "ops"}, False),
        ("tests/fuzz/test_a.py", {"spark", "long"}, False),
    ],
)
def test_tests_that_their_process_does_not_collect(path: str, markers: set[str], expected: bool) -> None:
    assert not_collected(path, markers) == expected


def test_deselected_test_that_no_process_collects_is_refused(request: pytest.FixtureRequest) -> None:
    test = pytest.Function.from_parent(request.node.parent, name="test_x", callobj=lambda: None)
    conftest.pytest_deselected([test])
    test.add_marker(pytest.mark.spark)
    with pytest.raises(pytest.UsageError, match=pathlib.Path(__file__).name):
        conftest.pytest_deselected([test])


FAILS_AT_FIRST = """
import pathlib
def test_a():
    mark = pathlib.Path({mark!r})
    failed_before, _ = mark.exists(), mark.touch()
    assert failed_before
def test_b():
    pass
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder in which parts run, instead of the repository."""
    monkeypatch.setattr(run_suites, "REPOSITORY", tmp_path)
    return tmp_path


def part_of(folder: pathlib.Path, source: str, *options: str) -> Part:
    """A part that runs these tests."""
    (folder / "test_written.py").write_text(source)
    cache = folder / "cache"
    arguments = [f"--rootdir={folder}", "-o", f"cache_dir={cache}", "test_written.py", *options]
    return Part([sys.executable, "-P", "-m", "pytest", *arguments], dict(os.environ), cache)


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "a worker of xdist"])
def test_test_that_fails_once_is_repeated_and_named(
    folder: pathlib.Path, capfd: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    part = part_of(folder, FAILS_AT_FIRST.format(mark=str(folder / "mark")), *options)
    assert run(part, repeats=True) == 0
    output = capfd.readouterr().out
    assert "1 failed, 1 passed" in output and "1 passed in" in output
    assert output.splitlines()[-1].endswith("test_written.py::test_a")


@pytest.mark.parametrize("kept", ["no repeats", "fails again", "another part fails", "no test failed"])
def test_failure_stays_a_failure(kept: str, folder: pathlib.Path) -> None:
    source = FAILS_AT_FIRST.format(mark=str(folder / "mark"))
    if kept == "fails again":
        source = source.replace("failed_before, _ = mark.exists(), mark.touch()", "failed_before = False")
    if kept == "no test failed":
        source = "import pytest\n\npytest.exit('stopped', 1)\n"
    others = [Part([sys.executable, "-c", "raise SystemExit(2)"], dict(os.environ))] * (kept == "another part fails")
    assert run(part_of(folder, source), *others, repeats=kept != "no repeats") > 0


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["tests/contract/test_a.py::test_a[x/y::z]", "tests/spark/test_b.py::test_b"], True),
        (["tests/contract/test_a.py::test_a", "tests/golden/test_b.py::test_b"], False),
        ([f"tests/contract/test_a.py::test_{number}" for number in range(4)], False),
        ([], False),
    ],
)
def test_which_tests_run_again(names: list[str], expected: bool) -> None:
    assert may_repeat(names) == expected
