"""Imports an adapter when one of its public functions is first used."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module


def adapter(library: str, name: str, public: Collection[str]) -> object:
    """The public `name` of the adapter of `library`, which is also the name of Penstock's extra.

    AttributeError for a name that is not public. ImportError if the library is not installed, with the command that
    installs it.
    """
    if name not in public:
        raise AttributeError(f"module 'penstock.{library}' has no attribute {name!r}")
    try:
        module = import_module(f"penstock.engine.adapters.{library}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        raise ModuleNotFoundError(
            f"penstock.{library} needs {library}: pip install 'penstock[{library}]'", name=library
        ) from None
    return getattr(module, name)
