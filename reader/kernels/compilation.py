"""Marks functions as kernels. numba is imported, and a file's kernels are compiled or loaded, at the first call of one.

The import of numba takes a third of a second, and each kernel that is loaded from the cache some hundredths: a process
that calls no kernel pays neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Kernel:
    """A function that is compiled at its first call, together with the other functions of its file."""

    def __init__(self, function: Callable[..., Any], **settings: bool) -> None:
        """settings: those of `cache.built`."""
        self.function, self.settings = function, settings

    def __call__(self, *arguments: Any) -> Any:
        """Replaces the kernels of the file by numba's functions, and calls this one."""
        return self.dispatcher()(*arguments)

    def dispatcher(self) -> Any:
        """numba's function. A name that was imported before the first call still refers to this object."""
        from penstock.reader.kernels import cache

        names = self.function.__globals__
        with cache.BUILDING:
            if names.get(self.function.__name__) is self:
                kernels = [(name, value) for name, value in names.items() if isinstance(value, Kernel)]
                # At once, for other threads: numba resolves the functions that a kernel calls by these names.
                names.update({name: cache.built(kernel.function, **kernel.settings) for name, kernel in kernels})
        return names[self.function.__name__]


def compiled_lean(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that allocates no array. It runs without the GIL, and its machine code is cached in
    `cache.cache_folder`.

    Compiled code has no bounds checks: the kernel itself must stay inside its arrays. It takes no reference counts on
    its arguments: with them, every call of a helper with an array updates an atomic counter, at four times the cost of
    the loop.
    """
    return Kernel(function, is_kept=True, nogil=True, _nrt=False)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is inlined into each call in `compiled_lean` kernels of the same file."""
    return Kernel(function, is_kept=False, nogil=True, _nrt=False, forceinline=True)


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that `compiled_lean` kernels of the same file call: it is large, or called from many places."""
    return Kernel(function, is_kept=False, nogil=True, _nrt=False)
