"""The cache of the machine code of kernels. Import and calls work without a writable folder.

The default of numba fails in two cases: without any writable folder the import raises, and from a zip file the first
call raises if the home folder is not writable. This module tries the folders in order; without one, a kernel is
compiled in memory. A cache that cannot be read or written is never an error.

Every kernel is in one file with all functions that it calls: it is compiled again only if its own file changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, cgutils

# numba's types differ between releases; as Any they are compatible with each.
_njit: Any = numba.njit
_config: Any = numba.config  # pyright: ignore[reportPrivateImportUsage]
_Locator: Any = caching._CacheLocator
_CacheImpl: Any = caching.CompileResultCacheImpl
_FunctionCache: Any = caching.FunctionCache
_check_index: Any = cgutils.do_boundscheck

BUILDING = threading.Lock()
"""Held while the kernels of a file are built."""
ANNOUNCED = threading.Event()
"""Set when this process has said that it compiles, or has nobody to tell."""


def built(function: Callable[..., Any], *, is_kept: bool, **numba_options: bool) -> Any:
    """numba's function, which is compiled at its first call. `is_kept`: its machine code is cached."""
    kernel = _njit(**numba_options)(function)
    if is_kept:
        with contextlib.suppress(RuntimeError):  # numba takes this as "no folder": the kernel stays in memory
            kernel._cache = _KernelCache(function)
    return kernel


def check_word(context: Any, builder: Any, array: Any, at: Any) -> None:
    """Emits the check of NUMBA_BOUNDSCHECK for the eight bytes at `at`, which numba leaves out in an intrinsic."""
    if context.enable_boundscheck:
        size = builder.extract_value(array.shape, 0)
        _check_index(context, builder, at, size)
        _check_index(context, builder, builder.add(at, at.type(7)), size)


def _announce() -> None:
    """Says once, on a terminal, why this process takes longer than the next one."""
    if not ANNOUNCED.is_set():
        ANNOUNCED.set()
        if sys.stderr is not None and sys.stderr.isatty():
            text = "compiling kernels, once for this installation; `penstock doctor --warm` compiles all of them ahead"
            sys.stderr.write(f"penstock: {text}\n")


def cache_folder(source_file: str) -> Path | None:
    """The first writable folder for kernels of this file; None if there is none.

    NUMBA_CACHE_DIR where it is set, else `__pycache__` next to the file, else the user's cache folder. A file inside
    a zip has no folder next to it.
    """
    return next((folder for folder in _places(source_file) if _writable(folder)), None)


def _places(source_file: str) -> Iterator[Path]:
    source = Path(source_file)
    own = f"penstock-{hashlib.sha256(str(source.absolute()).encode()).hexdigest()[:16]}"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        yield Path(chosen) / own
    if source.is_file():
        yield source.parent / "__pycache__"
    try:
        home = Path.home()
    except RuntimeError:  # neither HOME nor an entry in the user database
        return
    if sys.platform == "darwin":
        yield home / "Library" / "Caches" / "penstock" / own
    else:
        yield Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "penstock" / own


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _source_of(function: Callable[..., Any]) -> str | None:
    """The text of the function's module, read by its loader: a file's or a zip's."""
    loader: Any = function.__globals__.get("__loader__")
    try:
        source: str | None = loader.get_source(function.__module__)
    except (AttributeError, ImportError, OSError):
        return None
    return source


_UNREADABLE = (
    OSError,
    EOFError,
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)
"""Exceptions that a damaged cache file can raise."""


class _ChosenPlace(_Locator):  # type: ignore[misc]
    """Sets numba's folder to `cache_folder`; entries hold for one text of the module, and with bounds checks or not.

    numba itself ignores the latter, and would run code without checks under NUMBA_BOUNDSCHECK=1.
    """

    def __init__(self, folder: Path, stamp: str, line: int) -> None:
        self._folder, self._stamp, self._line = folder, stamp, line

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], source_file: str) -> _ChosenPlace | None:
        folder, source = cache_folder(source_file), _source_of(function)
        if folder is None or source is None:
            return None
        stamp = f"{hashlib.sha256(source.encode()).hexdigest()} {_config.BOUNDSCHECK}"
        return cls(folder, stamp, function.__code__.co_firstlineno)


class _ChosenPlaceOnly(_CacheImpl):  # type: ignore[misc]
    _locator_classes = (_ChosenPlace,)


class _KernelCache(_FunctionCache):  # type: ignore[misc]
    """numba's cache, where a file that is damaged, unreadable or not writable costs only the time to compile."""

    _impl_class = _ChosenPlaceOnly

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            code = super().load_overload(signature, context)
        except _UNREADABLE:
            self._forget()
            code = None
        if code is None:
            _announce()
        return code

    def save_overload(self, signature: Any, compiled_code: Any) -> None:
        try:
            super().save_overload(signature, compiled_code)
        except _UNREADABLE:
            self._forget()

    def _forget(self) -> None:
        try:
            self.flush()
        except OSError:
            self.disable()
