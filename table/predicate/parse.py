"""Parses the text of a filter into a typed tree.

Imports `table.predicate.grammar` at the first filter: most reads have none, and its SQL parser takes longer to import
than a small table takes to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.predicate.tree import Predicate


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Parses `text`, and binds its columns and literals to `schema`, the table's own.

    A literal is compared by value: `int_column > 3.5` is true for 4, `int_column = 3.5` for no row. Timestamps without
    a zone are UTC. ConfigurationError for text outside of the grammar, an unknown column, a literal that does not match
    its column's type, a text above 64 KiB, one with more than 6,000 tokens (24,000 with those of IN lists), or one
    nested deeper than 16 levels. The error has the position and the allowed syntax.
    """
    from penstock.table.predicate.grammar import parse_filter

    return parse_filter(text, schema)
