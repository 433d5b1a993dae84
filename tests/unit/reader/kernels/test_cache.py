"""Where kernels keep their machine code: next to the module, with the user, or nowhere; and never an error."""

from __future__ import annotations

import importlib
import io
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from penstock.reader.kernels import cache
from penstock.reader.kernels.cache import cache_folder

SOURCE = """
from penstock.reader.kernels.compilation import compiled_lean, inlined

@inlined
def _twice(number):
    return 2 * number

@compiled_lean
def answer(numbers):
    total = 0
    for number in numbers:
        total += _twice(number)
    return total + {offset}
"""

Importer = Callable[..., ModuleType]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a module folder of the test's own."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "modules").mkdir()
    return tmp_path


@pytest.fixture
def imported(places: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Importer]:
    """Imports the kernel's module again from a folder, or from a zip in it."""
    name = "penstock_cache_probe"

    def load(offset: int = 0, *, zipped: bool = False) -> ModuleType:
        sys.modules.pop(name, None)
        source = SOURCE.format(offset=offset)
        entry = places / "modules"
        if zipped:
            entry = places / "modules.zip"
            with zipfile.ZipFile(entry, "w") as archive:
                archive.writestr(f"{name}.py", source)
        else:
            (entry / f"{name}.py").write_text(source)
        monkeypatch.setattr(sys, "path", [str(entry), *sys.path])
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        sys.path_importer_cache.pop(str(entry), None)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield load
    sys.modules.pop(name, None)


def answer(module: ModuleType) -> tuple[int, bool]:
    """The kernel's answer, and whether its code came from the cache."""
    import numpy as np

    result = int(module.answer(np.arange(4)))
    return result, bool(module.answer.stats.cache_hits)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nb?"))


def block(folder: Path) -> None:
    """Makes a folder impossible, for the superuser too: a file stands in its place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("")


def test_next_to_the_module_first(imported: Importer, places: Path) -> None:
    assert answer(imported()) == (12, False)
    assert len(entries(places / "modules" / "__pycache__")) == 2
    assert answer(imported()) == (12, True)
    assert entries(places / "home") == []


def test_another_text_of_the_module_is_another_kernel(imported: Importer) -> None:
    assert answer(imported(offset=0)) == (12, False)
    assert answer(imported(offset=5)) == (17, False)


def test_code_with_bounds_checks_is_another_kernel(imported: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.config.BOUNDSCHECK", None)  # the run itself may check bounds
    assert answer(imported()) == (12, False)
    monkeypatch.setattr("numba.config.BOUNDSCHECK", 1)
    assert answer(imported()) == (12, False)


def test_users_folder_where_the_modules_cannot_be_written(imported: Importer, places: Path) -> None:
    block(places / "modules" / "__pycache__")
    assert answer(imported()) == (12, False)
    assert len(entries(places / "home" / ".cache" / "penstock")) == 2
    assert answer(imported()) == (12, True)


def test_no_place_at_all(imported: Importer, places: Path) -> None:
    block(places / "modules" / "__pycache__")
    block(places / "home")
    assert answer(imported()) == (12, False)
    assert answer(imported()) == (12, False)


def test_out_of_a_zip(imported: Importer, places: Path) -> None:
    assert answer(imported(zipped=True)) == (12, False)
    assert len(entries(places / "home" / ".cache" / "penstock")) == 2
    assert answer(imported(zipped=True)) == (12, True)
    assert answer(imported(offset=1, zipped=True)) == (13, False)


def test_out_of_a_zip_without_a_home(imported: Importer, places: Path) -> None:
    block(places / "home")
    assert answer(imported(zipped=True)) == (12, False)


def test_chosen_folder_goes_before_all(imported: Importer, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(places / "chosen"))
    assert answer(imported(zipped=True)) == (12, False)
    assert len(entries(places / "chosen")) == 2
    block(places / "impossible")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(places / "impossible"))
    assert answer(imported()) == (12, False)
    assert len(entries(places / "modules" / "__pycache__")) == 2


@pytest.mark.parametrize("damage", [b"", b"\x80\x05", b"garbage", b"\x80\x04N."])
def test_damaged_cache_only_costs_the_compilation(imported: Importer, places: Path, damage: bytes) -> None:
    answer(imported())
    for entry in entries(places / "modules" / "__pycache__"):
        entry.write_bytes(damage)
    assert answer(imported()) == (12, False)
    assert answer(imported()) == (12, True)


def test_cache_that_can_no_longer_be_written(imported: Importer, places: Path) -> None:
    module = imported()
    module.answer.dispatcher()
    folder = places / "modules" / "__pycache__"
    folder.rmdir()
    block(folder)
    assert answer(module) == (12, False)


def test_folders_by_file(places: Path) -> None:
    module = places / "modules" / "m.py"
    module.write_text("")
    assert cache_folder(str(module)) == places / "modules" / "__pycache__"
    first, second = (cache_folder(str(places / name / "m.py")) for name in ("a.zip", "b.zip"))
    assert first is not None and second is not None and first != second
    assert first.parent == places / "home" / ".cache" / "penstock"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_terminal_is_told_once_that_kernels_are_compiled(
    imported: Importer, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    for offset in (0, 1):  # two texts: two compilations
        monkeypatch.setattr(cache, "ANNOUNCED", cache.ANNOUNCED if offset else threading.Event())
        assert answer(imported(offset=offset))[1] is False
    assert terminal.getvalue().count("penstock doctor --warm") == int(is_terminal)
    monkeypatch.setattr(cache, "ANNOUNCED", threading.Event())
    assert answer(imported(offset=1)) == (13, True)
    assert not cache.ANNOUNCED.is_set(), "code from the cache is not announced"
