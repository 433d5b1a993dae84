"""A filter's text into a typed tree: the one way to it.

The grammar is `table.predicate.grammar`, imported when a filter is parsed: most reads have none, and the parser it
stands on takes longer to import than a small table to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.predicate.tree import Predicate


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """The filter that `text` spells, with columns and literals bound to `schema` (the table's own).

    A literal is compared by value: `int_column > 3.5` holds for 4, `int_column = 3.5` for no row. Timestamps without
    a zone are UTC. ConfigurationError for anything outside the grammar, an unknown column, a literal that does not
    suit its column, a text above 64 KiB, of more than 6,000 tokens
    (24,000 with those of IN lists) or nested deeper than 16 levels; it shows the place and says what is allowed.
    """
    from penstock.table.predicate.grammar import parse_filter

    return parse_filter(text, schema)
