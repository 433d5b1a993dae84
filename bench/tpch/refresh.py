"""The rows of TPC-H's refresh functions.

tpchgen-cli generates none. RF1 here has copies of orders, with their lineitems, under order keys that no generated
order has: of 32 keys in a row, TPC-H uses eight. It also changes orders that are in the table, so that an upsert both
inserts and updates. RF2 deletes other orders, with their lineitems.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UNUSED_KEYS: Final = 8
"""An order key of a generated order plus this one is the key of no generated order."""
RAISE: Final = pa.scalar(Decimal("1.01"), pa.decimal128(3, 2))
"""RF1 multiplies a price by this factor."""


@dataclass(frozen=True, slots=True)
class RefreshedTable:
    """A table that the refresh functions write."""

    name: str
    """Its name."""
    order_key: str
    """Its column with the order key."""
    price: str
    """The column that RF1 changes."""

    def rf1(self, generated: pa.Table, one_in: int) -> pa.Table:
        """The rows that RF1 upserts: of so many orders one is copied, and one is changed, each with its lineitems."""
        numbers = self._numbers(generated, one_in)
        new, changed = (generated.filter(pa.array(numbers == number)) for number in (0, 1))
        new = _with(new, self.order_key, pc.add(new[self.order_key], UNUSED_KEYS))
        price = pc.round(pc.multiply(changed[self.price], RAISE), 2)
        return pa.concat_tables([new, _with(changed, self.price, price)])

    def rf2(self, generated: pa.Table, one_in: int) -> pa.Table:
        """The rows that RF2 deletes: one order of so many, with its lineitems."""
        return generated.filter(pa.array(self._numbers(generated, one_in) == 2))

    def refreshed(self, generated: pa.Table, one_in: int) -> pa.Table:
        """The rows of the table after both."""
        kept = pa.array(~np.isin(self._numbers(generated, one_in), (1, 2)))
        return pa.concat_tables([generated.filter(kept), self.rf1(generated, one_in)])

    def _numbers(self, generated: pa.Table, one_in: int) -> np.ndarray:
        """The number of the order of each row among the generated ones, modulo."""
        keys = generated[self.order_key].to_numpy()
        return (keys // 32 * 8 + keys % 32) % one_in


REFRESHED: Final = (
    RefreshedTable("orders", "o_orderkey", "o_totalprice"),
    RefreshedTable("lineitem", "l_orderkey", "l_extendedprice"),
)


def _with(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    field = table.schema.field(name)
    return table.set_column(table.schema.get_field_index(name), field, values.cast(field.type))
