from __future__ import annotations

import os
from typing import Any

import pytest

from experiments.errors import UserError
from experiments.sweep.jobs import compose_all


def told(overrides: list[str]) -> Any:
    """What stands for a job here: its overrides and the process that composed it."""
    if overrides == ["bad"]:
        raise UserError("bad is no job")
    return overrides, os.getpid()


def test_jobs_keep_their_order_on_several_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3))
    jobs: list[Any] = compose_all([[str(i)] for i in range(50)], told)
    assert [overrides for overrides, _ in jobs] == [[str(i)] for i in range(50)]
    assert len({process for _, process in jobs}) == 3


def test_an_error_is_raised_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    with pytest.raises(UserError, match="bad is no job"):
        compose_all([["good"]] * 30 + [["bad"]], told)


def test_a_few_jobs_are_composed_here() -> None:
    jobs: list[Any] = compose_all([["a"], ["b"]], told)
    assert jobs == [(["a"], os.getpid()), (["b"], os.getpid())]
