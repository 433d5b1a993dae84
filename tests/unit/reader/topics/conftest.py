"""Every test of topics takes both decoders of JSON, however few its records are."""

from __future__ import annotations

import pytest

from penstock.reader.topics import forms


@pytest.fixture(autouse=True, params=[0, forms.FEW], ids=["bulk", "few"])
def shortest_bulk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From how many records on they are decoded in bulk."""
    monkeypatch.setattr(forms, "FEW", request.param)
