"""pyarrow makes the functions of this module when it is loaded: a type checker cannot see them."""

from typing import Any

def __getattr__(name: str) -> Any: ...
