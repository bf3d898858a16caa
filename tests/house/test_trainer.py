"""A trainer's step with this project's losses, at toy size."""

from __future__ import annotations

import pytest
import torch

from docs.llama_step import main


@pytest.mark.parametrize("head", ["loss", "policy"])
def test_a_llama_has_the_same_loss_by_each(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda loss, **_: loss)  # it would take half a minute
    found = main(["--toy", "--steps", "1", "--head", head])
    assert {"ours", "torch", "compile"} <= found.keys()
    assert found["ours"] == pytest.approx(found["torch"], rel=1e-5)
