"""Launching a Triton kernel: the ordinary way, again without the ceremony, and with what options.

`launch` is ``function[grid](*arguments, **constants, **options)``: Triton binds the arguments,
looks at each one's type, value and alignment, finds the compiled kernel and launches it, in 7–14 µs
of host time. What it did can be listened to (`launches`), and a `Plan` hands other memory to the
same compiled kernel: it allocates the answer and calls the function in C behind Triton's launcher.
Whoever keeps a plan answers for what Triton looked at: shapes, strides, dtypes, device and each
address modulo 16 must be those of the launch.

Programmatic dependent launch (`dependent`): of two kernels in one stream the second is by default
not started before the first has ended and its writes are seen: about a microsecond in which the
memory rests. Launched as a dependent, the second's programs take the places that the first's leave
free, and wait there, `await_previous`, until all before is done. They touch no memory before, so
that nothing but the start is earlier. That pays only behind a kernel that lets its dependents start
early, as these do: in CUDA graphs on an H200 it takes 0.1 to 0.8 µs off, while behind an ordinary
kernel, which is what a program has, it costs 0.2 to 0.6 µs (docs/lab_book.md). So it is an option,
off by default.

Eviction hints (`load_hint`, `store_hint`): what is read once and what is written pass through L2
together, and by default the oldest line gives way, of either kind. Loads and stores may ask for
`evict_last`: such lines give way last. On an H200 (docs/lab_book.md), by the bytes of the input:

- from once L2 on loads ask for it. A smaller matrix would take 0.3 to 0.6 µs less too, but leave L2
  full of an input that nobody reads again: who reads from L2 next waits 2 to 4 µs for DRAM.
- from once to eight times L2 stores ask too. The next kernel, which reads the output, finds more
  of it: both together take 1 to 4 % less. Of a larger output nothing stays, and a kernel by itself
  is up to 1 % faster if its stores do not ask.

Why the hints help a kernel by itself was not measured; no counter was read that would show it.
Source: PTX ISA, ``griddepcontrol`` (sm_90 and up) and cache eviction priority hints; CUDA C++
Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from .device import Device, device_of
from .language import constant, jit, tl

ALIGNMENT = 16  # bytes; Triton compiles apart for pointers aligned to it and those that are not

# What Triton 3.6 and 3.7 hand to a launcher; another version may have another order
_KNOWN = (
    ["self", "gridX", "gridY", "gridZ", "stream", "function", "args"],
    ["self", "gridX", "gridY", "gridZ", "stream", "function", "kernel_metadata", "launch_metadata",
     "launch_enter_hook", "launch_exit_hook", "args"],
)  # fmt: skip

DEPENDENT_FROM = (9, 0)  # compute capability
# The wait comes first: whoever depends on this kernel may then take for done what was before it
WAIT = constant("griddepcontrol.wait; griddepcontrol.launch_dependents; // $0")
LARGE, HUGE = 1, 8  # times L2
LAST = "evict_last"


@dataclass(frozen=True)
class Launched:
    """One launch as it was made.

    Attributes:
        compiled: Triton's compiled kernel, None under its interpreter.
        grid: Programs along each of three axes.
        arguments: All of the kernel's parameters in its own order, constants included.
    """

    compiled: Any
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]


_listening: ContextVar[list[Launched] | None] = ContextVar("_listening", default=None)


def launch(
    function: Any,
    grid: tuple[int, ...],
    arguments: Sequence[Any],
    constants: Mapping[str, Any],
    **options: Any,
) -> None:
    """Launches a kernel the ordinary way, and records it where `launches` asks for it.

    Args:
        function: What ``@triton.jit`` or ``@gluon.jit`` made.
        grid: One to three numbers of programs.
        arguments: Those given by place, the first parameters of the kernel.
        constants: Those given by name.
        options: Triton's own, as ``num_warps``.
    """
    compiled = function[grid](*arguments, **constants, **options)
    seen = _listening.get()
    names = function.arg_names[len(arguments) :] if seen is not None else ()
    if seen is not None and all(name in constants for name in names):
        x, y, z, *_ = *grid, 1, 1
        seen.append(Launched(compiled, (x, y, z), (*arguments, *(constants[n] for n in names))))


@contextmanager
def launches() -> Iterator[list[Launched]]:
    """Collects the launches made through `launch` by this thread inside the block."""
    seen: list[Launched] = []
    token = _listening.set(seen)
    try:
        yield seen
    finally:
        _listening.reset(token)


_lending: ContextVar[list[torch.Tensor] | None] = ContextVar("_lending", default=None)


def workspace(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Memory that launches write before they read it, and nobody reads after them."""
    made = torch.empty(shape, dtype=dtype, device=device)
    lent = _lending.get()
    if lent is not None:
        lent.append(made)
    return made


@contextmanager
def workspaces() -> Iterator[list[torch.Tensor]]:
    """Collects what `workspace` gave to this thread inside the block."""
    lent: list[torch.Tensor] = []
    token = _lending.set(lent)
    try:
        yield lent
    finally:
        _lending.reset(token)


class Plan:
    """A call on inputs that are alike: `carry` the first time, from then on the launch it made.

    Inputs are alike that share shape, strides, dtype, device and address modulo 16: all that Triton
    compiles apart for. A plan holds no tensor. The cheapest call of one is

        made = plan.again(x.data_ptr())
        return plan(x) if made is None else made

    Args:
        carry: Takes the inputs and returns a tensor that it made of them. The kernel's first
            parameters are the inputs, then that tensor.
        index: The CUDA device's; −1 on a CPU, where nothing is launched again.

    Attributes:
        again: Takes the address of each input. Returns what `carry` would, or None where the call
            is to be made by the plan itself.
        alike: What `alike` made of inputs of an earlier call, if anything.
    """

    __slots__ = ("_carry", "_index", "_tried", "again", "alike")

    def __init__(self, carry: Callable[..., torch.Tensor], index: int) -> None:
        self._carry, self._index, self._tried = carry, index, index < 0
        self.again: Callable[..., torch.Tensor | None] = _never
        self.alike: Callable[..., bool | None] = _never

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """What `carry` makes of the inputs, on their device."""
        if self._index >= 0 and torch._C._cuda_getDevice() != self._index:
            with torch.cuda.device(self._index):
                return self(*inputs)
        if self._tried:
            again = self.again(*[x.data_ptr() for x in inputs])
            return self._carry(*inputs) if again is None else again
        with launches() as seen:
            made = self._carry(*inputs)
        if len(seen) == 1:
            self.again = replay(seen[0], inputs, made, self._index) or _never
        self._tried = True
        return made


def alike(*tensors: torch.Tensor) -> Callable[..., bool | None]:
    """Makes a function that says of other tensors whether they are as these, in 0.1 µs.

    That is in type, dtype, device, shape, strides, ``requires_grad``, and for the dispatcher, with
    all that it now sees in them and around them: modes, transforms, tracing, negation. Addresses,
    forward-mode differentiation and Dynamo are not looked at. By Dynamo's own test of its inputs.
    """
    guards = getattr(torch._C._dynamo.guards, "TensorGuards", None)
    if guards is None:
        return _never
    check: Callable[..., bool] = guards(
        *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
    ).check
    return check


def _never(*_: Any) -> None:
    return None


def replay(
    launched: Launched, inputs: Sequence[torch.Tensor], made: torch.Tensor, index: int
) -> Callable[..., torch.Tensor | None] | None:
    """`Plan.again`, or None where a launch made again would not be right. It keeps no tensor alive.

    Args:
        launched: The launch to make again.
        inputs: What it was given: its first arguments, in order.
        made: What it made: its next argument, and its last tensor.
        index: The CUDA device's.
    """
    tensors = (*inputs, made)
    given, rest = launched.arguments[: len(tensors)], launched.arguments[len(tensors) :]
    same = len(given) == len(tensors) and all(
        isinstance(a, torch.Tensor) and a.data_ptr() == t.data_ptr() and a.dtype == t.dtype
        for a, t in zip(given, tensors, strict=True)
    )
    if not same or made.data_ptr() % ALIGNMENT or any(hasattr(each, "data_ptr") for each in rest):
        return None
    found = launcher(launched, len(tensors), rest)
    # past the dispatcher, as Inductor allocates
    empty = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
    if found is None or empty is None:
        return None
    run, before, between, after, grouped, runtime = found
    enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
    device, stream = torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream
    shape, strides, dtype = tuple(made.shape), made.stride(), made.dtype

    def again(*addresses: int) -> torch.Tensor | None:
        if (
            device() != index
            or runtime.launch_enter_hook is not enter  # a profiler's: the call is
            or runtime.launch_exit_hook is not leave  # made the ordinary way
            or enter.calls
            or leave.calls
        ):
            return None
        answer: torch.Tensor = empty(shape, strides, dtype)
        address = answer.data_ptr()
        if address % ALIGNMENT:  # an allocator of the user's own
            return None
        if grouped:
            run(*before, stream(index), *between, (*addresses, address, *after))
        else:
            run(*before, stream(index), *between, *addresses, address, *after)
        return answer

    return again


def launcher(launched: Launched, count: int, rest: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The function in C behind Triton's launcher, and what it is handed: found by watching it.

    Args:
        launched: The launch to make again.
        count: Its tensors.
        rest: Its arguments after those.

    Returns:
        The function; its arguments before the stream, between the stream and the tensors, and after
        the tensors; whether tensors and what follows are one argument, a tuple; and Triton's
        settings of hooks. None of a launcher that is not known, or that needs memory of its own.
    """
    compiled = launched.compiled
    try:
        from triton import knobs

        settings, launcher = knobs.runtime, compiled.run
        known = list(inspect.signature(type(launcher).__call__).parameters) in _KNOWN
        plain = not isinstance(launcher.launch, FunctionType)  # that rewrites TMA descriptors
        scratch = launcher.global_scratch_size or launcher.profile_scratch_size
        hooks = settings.launch_enter_hook.calls, settings.launch_exit_hook.calls
        if not (known and plain) or scratch or not all(isinstance(calls, list) for calls in hooks):
            return None
        handed: list[tuple[Any, ...]] = []
        watched, marks = copy(launcher), [object() for _ in range(1 + count)]
        watched.launch = lambda *arguments: handed.append(arguments)
        watched(*launched.grid, marks[0], compiled.function, compiled.packed_metadata,
                None, None, None, *marks[1:], *rest)  # fmt: skip
        (flat,) = handed
        grouped = isinstance(flat[-1], tuple) and marks[-1] in flat[-1]
        flat = (*flat[:-1], *flat[-1]) if grouped else flat
        first, second = flat.index(marks[0]), flat.index(marks[1])
    except (ImportError, AttributeError, TypeError, ValueError):
        return None
    if [*flat[second : second + count]] != marks[1:]:
        return None
    before, between, after = flat[:first], flat[first + 1 : second], flat[second + count :]
    return launcher.launch, before, between, after, grouped, settings


def dependent(device: Device, wanted: bool) -> bool:
    """Whether a kernel is launched as a dependent of the one before it: if wanted, where it can."""
    return wanted and device.capability is not None and device.capability >= DEPENDENT_FROM


def launch_option(depends: bool) -> dict[str, bool]:
    """Triton's option for it; none where it is not asked for: the interpreter knows none."""
    return {"launch_pdl": True} if depends else {}


@jit
def await_previous(DEPENDENT: tl.constexpr) -> None:
    """Waits for all kernels before this one, then lets the next be placed."""
    if DEPENDENT:
        tl.inline_asm_elementwise(WAIT, "=r", [], tl.int32, is_pure=False, pack=1)


def load_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the loads of ``x``, ``"evict_last"`` or none.

    Args:
        x: The input.
        keep: Whether loads are to ask for it; None asks from once L2 on.
    """
    wanted = beyond_l2(x) if keep is None else keep
    return LAST if wanted else ""


def store_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the stores of an output as large as ``x``.

    Args:
        x: The input.
        keep: Whether stores are to ask for it; None asks from once to eight times L2.
    """
    wanted = LARGE <= _times_l2(x) < HUGE if keep is None else keep
    return LAST if wanted else ""


def beyond_l2(x: torch.Tensor) -> bool:
    """Whether a matrix is too large to stay in its device's L2."""
    return _times_l2(x) >= LARGE


def _times_l2(x: torch.Tensor) -> float:
    """Bytes of a matrix over those of its device's L2, 0 where that is not known."""
    l2_bytes = device_of(x).l2_bytes
    return x.numel() * x.element_size() / l2_bytes if l2_bytes else 0.0
