"""The clocks that timers use, and a check whether a kernel changed this process for others.

Import this before any kernel. Timers then call the original functions even if a kernel's module
replaces them, and `changes` names the functions and settings that it changed.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

now_s, now_ns, processor_ns = time.perf_counter, time.perf_counter_ns, time.process_time_ns
Event = torch.cuda.Event
record: Callable[[Any], None] = Event.record
query: Callable[[Any], bool] = Event.query
elapsed_ms: Callable[[Any, Any], float] = Event.elapsed_time
synchronize: Callable[[], None] = torch.cuda.synchronize
spin: Callable[[int], None] = torch.cuda._sleep  # enqueues a kernel that runs this many cycles

# Modules and classes with functions that references, timers or other kernels call, too.
WATCHED: tuple[Any, ...] = (
    *(torch, torch.Tensor, torch.nn.functional, torch.cuda, torch.cuda.Event, torch.special),
    *(time, sys.modules[__name__]),
)
REPLACED_BY_PYTORCH = {"manual_seed"}  # the first torch.compile replaces it


def elapsed_us(start: Any, end: Any) -> float:
    """The time in µs between two recorded CUDA events, by the card's clock."""
    return float(elapsed_ms(start, end)) * 1e3


def state() -> dict[str, Any]:
    """By name the settings that affect kernels' times or answers, and the `WATCHED` functions."""
    tiny = torch.full((1,), 1e-40, dtype=torch.float32, device="cpu")  # a subnormal number
    found: dict[str, Any] = {
        "the number of threads": torch.get_num_threads(),
        "the default dtype": torch.get_default_dtype(),
        "the default device": torch.get_default_device(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "the precision of products": torch.get_float32_matmul_precision(),
        "the search for convolutions": torch.backends.cudnn.benchmark,
        "subnormal numbers": bool(tiny + tiny > 0),
        "the priority": os.getpriority(os.PRIO_PROCESS, 0),
    }
    if hasattr(os, "sched_getaffinity"):
        found["the cores it may use"] = os.sched_getaffinity(0)
    if torch.cuda.is_initialized():
        found["the current stream"] = torch.cuda.current_stream().cuda_stream
    found |= {name: place.get(attribute) for name, place, attribute in _FUNCTIONS}
    return found


def changes(before: Mapping[str, Any]) -> str:
    """The names of at most three things that differ from an earlier `state`; "" if none do."""
    now = state()
    names = [k for k, v in before.items() if v is not now[k] and (callable(v) or v != now[k])]
    return ", ".join(sorted(names)[:3])


_FUNCTIONS = [
    (f"{place.__name__}.{name}", vars(place), name)
    for place in WATCHED
    for name, one in vars(place).items()
    if callable(one) and name not in REPLACED_BY_PYTORCH
]
