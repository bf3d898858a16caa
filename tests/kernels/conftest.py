"""Kernels run on the GPU where there is one, else under Triton's interpreter on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from kernels.device import Device

collect_ignore_glob = [] if find_spec("triton") else ["*test_ptx.py"]

H200 = Device(
    kind="cuda",
    name="NVIDIA H200",
    capability=(9, 0),
    sms=132,
    warp_size=32,
    registers_per_sm=65536,
    shared_bytes_per_sm=233472,
    shared_bytes_per_block=232448,
    warps_per_sm=64,
    clusters=(528, 248, 124, 58),
)


@pytest.fixture(scope="session")
def device() -> str:
    """Where tensors go: ``cuda``, or ``cpu`` where the interpreter runs the kernels."""
    interpreted = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
    return "cpu" if interpreted or not torch.cuda.is_available() else "cuda"


@pytest.fixture(scope="session")
def h200() -> Device:
    """An H200 by its limits, wherever the tests run."""
    return H200


@pytest.fixture(scope="session", autouse=True)
def _language_replaced_once() -> Iterator[None]:
    """Triton's interpreter looks through its language at each call of a function in a kernel.

    A launch has replaced all of it by then: nothing is found, in half of the time that a kernel
    takes.
    """
    try:
        from triton.runtime import interpreter
    except ImportError:
        yield
        return
    language, replace = interpreter.tl, interpreter._patch_lang

    @cache
    def seen_by(function: Callable[..., Any]) -> tuple[Any, ...]:
        seen = [id(value) for value in function.__globals__.values()]
        return tuple(module for module in (language, language.core) if id(module) in seen)

    def replaced(function: Callable[..., Any]) -> Any:
        for module in seen_by(function):
            if module.static_print is not print or language.core.is_builtin(module.tensor.__add__):
                return replace(function)
        return interpreter._LangPatchScope()

    with pytest.MonkeyPatch.context() as monkeypatch:
        if hasattr(interpreter, "_LangPatchScope"):  # of Triton 3.6 and 3.7
            monkeypatch.setattr(interpreter, "_patch_lang", replaced)
        yield
