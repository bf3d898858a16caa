"""What a worker shares with its parent: where they are, NVML, and how errors are told."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@cache
def _nvml() -> Any:
    with contextlib.suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        return pynvml


def ask_nvml(fact: str, *arguments: Any) -> Any:
    """The answer of NVIDIA's management library, such as to ``DeviceGetCount``.

    None without the library, a driver or permission, and for a fact that the card does not give.
    """
    with contextlib.suppress(Exception):
        return getattr(_nvml(), f"nvml{fact}")(*arguments)
    return None


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """An environment in which children find this checkout."""
    path = os.pathsep.join([str(ROOT), *filter(None, [given.get("PYTHONPATH")])])
    return {**given, "PYTHONPATH": path}


def one_line(error: BaseException) -> str:
    """An error as one line of at most 300 characters, without paths, user or name of this host."""
    text = " ".join(str(error).encode("utf-8", "replace").decode().split())
    text = re.sub(r"(?:/[\w.@+-]+)+/([\w.@+-]+)", r"\1", text)
    for private in (Path.home().name, platform.node()):
        if len(private) > 2:
            text = text.replace(private, "…")
    return f"{type(error).__name__}: {text or type(error).__name__}"[:300]
