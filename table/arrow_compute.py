"""`pc`: the functions of `pyarrow.compute`, which is imported when a function is called that few reads need."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

try:  # where `pyarrow.compute`, which documents these names, has them from
    from pyarrow._compute import (
        CastOptions,
        DictionaryEncodeOptions,
        FilterOptions,
        SetLookupOptions,
        TakeOptions,
        call_function,
    )
except ImportError:  # a release of pyarrow that has them elsewhere
    from pyarrow.compute import (
        CastOptions,
        DictionaryEncodeOptions,
        FilterOptions,
        SetLookupOptions,
        TakeOptions,
        call_function,
    )


class _Functions:
    """Has every name of `pyarrow.compute`.

    The import of that module makes a Python function of each of Arrow's, and takes a twentieth of a small read. The
    functions that such a read calls are therefore here, with the defaults of those of `pyarrow.compute`. The methods of
    arrays and batches (`take`, `filter`, `cast`) import it too.
    """

    def __getattr__(self, name: str) -> Any:
        import pyarrow.compute  # late: see above

        function = getattr(pyarrow.compute, name)
        setattr(self, name, function)  # not looked up again
        return function

    @staticmethod
    def cast(values: Any, kind: pa.DataType) -> Any:
        """The values of another type; an ArrowInvalid where one has no equal in it."""
        return call_function("cast", [values], CastOptions.safe(kind))

    @staticmethod
    def dictionary_encode(values: Any) -> Any:
        """Each distinct value once, and an index of it for each value."""
        return call_function("dictionary_encode", [values], DictionaryEncodeOptions())

    @staticmethod
    def filter(values: Any, mask: pa.BooleanArray) -> Any:
        """The rows where the mask is true, of arrays and of batches."""
        return call_function("filter", [values, mask], FilterOptions())

    @staticmethod
    def index_in(values: Any, *, value_set: pa.Array) -> Any:
        """The place of each value in a set, null if it is not in it."""
        return call_function("index_in", [values], SetLookupOptions(value_set=value_set))

    @staticmethod
    def is_valid(values: Any) -> Any:
        """Whether each value is not null."""
        return call_function("is_valid", [values])

    @staticmethod
    def take(values: Any, rows: pa.Array) -> Any:
        """The rows at these places, of arrays and of batches."""
        return call_function("take", [values, rows], TakeOptions())


pc: Final[Any] = _Functions()
