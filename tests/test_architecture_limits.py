"""Sizes of files, functions and folders, pure code, and what the repository may hold."""

from __future__ import annotations

import ast
import os
import pathlib
import re
from collections.abc import Iterator

from tests.package_sources import (
    REPOSITORY,
    ROOMS,
    breaches,
    committed_files,
    package_folders,
    package_sources,
    scripts,
)

MAX_FILE_LINES = 400
MAX_MODULES = 16
"""Modules of a folder beside its `__init__` and its sub-packages."""
MAX_FUNCTION_LINES = 70
PURE = (
    "proto/errors.py",
    "proto/model/positions.py",
    "proto/model/queries.py",
    "proto/model/splits.py",
    "proto/model/reports.py",
    "proto/model/groups.py",
    "proto/model/streams.py",
    "proto/model/service_splits.py",
    "enumerator/service_splits/board.py",
    "enumerator/service_splits/due_services.py",
    "proto/model/hybrid.py",
    "proto/codec/hybrid/checks.py",
    "proto/codec/hybrid/places_json.py",
    "kafka/config.py",
    "kafka/protocols.py",
    "kafka/errors.py",
    "kafka/range_progress.py",
    "enumerator/planning/commit_order.py",
    "enumerator/planning/slice_planner.py",
    "enumerator/core/slot_assigner.py",
    "enumerator/store/sqlite/row_format.py",
    "enumerator/store/protocol.py",
    "enumerator/store/sqlite/wal.py",
    "enumerator/observer.py",
    "enumerator/groups/activity.py",
    "enumerator/server/http/page_data.py",
    "engine/doctor/findings.py",
    "enumerator/server/metrics/catalog.py",
    "enumerator/server/auth/acl.py",
    "enumerator/server/config/settings.py",
    "proto/model/access.py",
    "proto/client/certificates.py",
    "table/storage/refusals.py",
    "enumerator/snapshots/split_list.py",
    "enumerator/streams/watermark.py",
    "enumerator/continuous/consistency.py",
    "enumerator/continuous/lag.py",
    "enumerator/continuous/round_limits.py",
    "enumerator/continuous/types.py",
    "enumerator/handover/commit_offsets.py",
    "enumerator/handover/offset_formats.py",
    "enumerator/handover/offset_fallbacks.py",
    "enumerator/handover/offsets.py",
    "enumerator/handover/topic_position.py",
    "enumerator/handover/offset_search.py",
    "enumerator/handover/explain.py",
    "table/timeline/instants.py",
    "table/files/names.py",
    "table/files/slices.py",
    "table/config/merge_rules.py",
    "table/predicate/*.py",
    "table/columns.py",
    "table/parquet/legacy_calendar.py",
    "table/log/blocks.py",
    "table/log/deletes.py",
    "table/log/positions.py",
    "reader/merge/*.py",
    "reader/kernels/*.py",
    "writer/kernels/*.py",
    "writer/rows/*.py",
    "writer/index/*.py",
    "writer/transaction/clock.py",
    "writer/transaction/conflicts.py",
    "reader/base/legacy_calendar.py",
    "reader/base/legacy_zones.py",
)
"""Pure decisions: functions of their arguments. Every pattern must name a file.

A module whose docstring says that it is pure is checked as well.
"""
NOT_PURE = ("reader/kernels/cache.py",)
"""Modules with effects among pure files: the folder with the cache of compiled kernels."""
IMPURE_MODULES = {"time", "random", "threading", "asyncio", "socket", "subprocess", "tempfile", "secrets", "uuid"}
IMPURE_CALLS = {"open", "input", "print"}
CLOCK_READS = {"now", "utcnow", "today"}


def test_pure_files_use_no_clock_randomness_thread_or_file() -> None:
    lines = []
    for pattern in PURE:
        if not list(REPOSITORY.glob(pattern)):
            lines.append(f"{pattern}: no such file; bring the list of pure files up to date")
    for source in package_sources():
        says_so = re.search(r"\bPure\b", ast.get_docstring(source.tree) or "")
        if source.matches(NOT_PURE) or not (says_so or source.matches(PURE)):
            continue
        for line, name in source.imports():
            if name.split(".")[0] in IMPURE_MODULES:
                lines.append(f"{source.name}:{line}: pure code imports {name}")
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
                lines.append(f"{source.name}:{node.lineno}: pure code calls {node.func.id}()")
            if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_READS:
                lines.append(f"{source.name}:{node.lineno}: pure code reads a clock: .{node.func.attr}()")
    breaches(lines)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_and_functions_stay_short() -> None:
    problems = []
    files = [(source.name, source.text, source.tree) for source in package_sources()]
    files += [(path.name, path.read_text(), ast.parse(path.read_text())) for path in scripts()]
    for name, text, tree in files:
        lines = text.count("\n")
        if lines > MAX_FILE_LINES:
            problems.append(f"{name}: {lines} lines, at most {MAX_FILE_LINES}: it has more than one job")
        for function in functions(tree):
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            if length > MAX_FUNCTION_LINES:
                problems.append(
                    f"{name}:{function.lineno}: {function.name} has {length} lines, at most {MAX_FUNCTION_LINES}"
                )
    breaches(problems)


def test_invariants_are_raised_by_name() -> None:
    """An `assert` is no check of foreign bytes, and is removed by `python -O`; an InvariantViolation names the
    failure."""
    breaches(
        [
            f"{source.name}:{node.lineno}: assert; raise InvariantViolation, or the error that foreign bytes deserve"
            for source in package_sources()
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Assert)
        ]
    )


def test_every_folder_of_the_package_is_linked_and_has_an_init() -> None:
    for room in ROOMS:
        link = REPOSITORY / "src" / "penstock" / room
        assert link.is_symlink() and link.readlink() == pathlib.Path("../..") / room
    assert [
        folder for folder in package_folders().values() if not (REPOSITORY / folder / "__init__.py").is_file()
    ] == []


def test_folders_hold_few_modules() -> None:
    lines = []
    for package, folder in package_folders().items():
        modules = [path for path in (REPOSITORY / folder).glob("*.py") if path.name != "__init__.py"]
        if len(modules) > MAX_MODULES:
            lines.append(f"{folder}: {package} has {len(modules)} modules, at most {MAX_MODULES}")
    breaches(lines)


def test_suites_are_packages_and_change_no_import_path() -> None:
    """Suites import shared modules by their full name: each folder is a package, nothing changes `sys.path`."""
    modules = [file for file in committed_files() if file.startswith("tests/") and file.endswith(".py")]
    suites = [pathlib.Path(file) for file in modules if "/generators/" not in file]
    folders = sorted({file.parent for file in suites if not (REPOSITORY / file.parent / "__init__.py").is_file()})
    changes = re.compile(r"sys\.path(\.(append|insert|extend)|\[.*\] *=| *\+=)|from \S*conftest import")
    lines = [(file, line) for file in suites for line in (REPOSITORY / file).read_text().splitlines()]
    breaches([f"{folder}: no __init__.py" for folder in folders])
    breaches([f"{file}: {line.strip()}" for file, line in lines if changes.search(line) and "re.compile" not in line])


def test_no_folder_hides_the_installed_package() -> None:
    named = {pathlib.PurePosixPath(file).parts[0] for file in committed_files()}
    assert "penstock" not in named


def test_committed_text_names_no_machine_and_no_registry() -> None:
    machine = re.compile(r"(?<![\w.$}-])/(root|tmp|home|work)/")
    hosts = re.compile(
        r"pypi\.org|pythonhosted|repo1?\.maven|maven\.org|npmjs|crates\.io|golang\.org/|deb\.debian|apache\.org/maven2",
        re.I,
    )
    own = f"{REPOSITORY}/" if len(REPOSITORY.parts) > 2 else None
    lines = []
    for name in committed_files():
        data = (REPOSITORY / name).read_bytes()
        if b"\0" in data[:8192] or name == "tests/test_architecture_limits.py":  # binary; the patterns themselves
            continue
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            if machine.search(line) or (own and own in line):
                lines.append(f"{name}:{number}: a path of one machine: {line.strip()[:100]}")
            if hosts.search(line):
                lines.append(f"{name}:{number}: a registry's address: {line.strip()[:100]}")
    breaches(lines)


def test_suites_import_the_installed_package() -> None:
    """`make check` and `make test` set PENSTOCK_TEST_INSTALLED: they import the wheel, not this tree."""
    import penstock

    assert penstock.__file__ is not None
    if os.environ.get("PENSTOCK_TEST_INSTALLED"):
        assert "site-packages" in pathlib.Path(penstock.__file__).parts
