from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from kernels.softmax.cooperative import Workspaces


class Now:
    """The stream that is current, and whether it is being captured."""

    stream = 0
    capturing = False


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    state = Now()
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=state.stream)
    )
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state.capturing)
    return state


def at(now: Now, spaces: Workspaces, stream: int, capturing: bool = False) -> torch.Tensor:
    now.stream, now.capturing = stream, capturing
    return spaces.current()


def test_launches_share_words_on_one_stream_and_nowhere_else(now: Now) -> None:
    spaces = Workspaces(6, torch.device("cpu"))
    found = [at(now, spaces, 0), at(now, spaces, 7), *(at(now, spaces, 7, True) for _ in range(2))]
    assert len({buffer.data_ptr() for buffer in found}) == len(found)
    assert all(torch.equal(buffer, torch.zeros(6, dtype=torch.int64)) for buffer in found)


def test_words_stay_from_launch_to_launch_on_a_stream(now: Now) -> None:
    spaces = Workspaces(4, torch.device("cpu"))
    at(now, spaces, 3).fill_(5)
    assert at(now, spaces, 8).tolist() == [0] * 4
    assert at(now, spaces, 3, capturing=True).tolist() == [0] * 4
    assert at(now, spaces, 3).tolist() == [5] * 4


def test_two_prepared_calls_never_share(now: Now) -> None:
    first, second = (Workspaces(4, torch.device("cpu")) for _ in range(2))
    assert at(now, first, 0).data_ptr() != at(now, second, 0).data_ptr()
