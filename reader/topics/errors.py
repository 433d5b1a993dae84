"""The one exception of decoding: a record, or a value of it, that is no row of the table. The policy is elsewhere."""

from __future__ import annotations


class Unfit(ValueError):
    """The message says what is wrong; it goes on "the record's " or names a column first."""
