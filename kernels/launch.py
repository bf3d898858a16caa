"""Launching a Triton kernel: the ordinary way, repeated without overhead, and its options.

`launch` is ``function[grid](*arguments, **constants, **options)``: Triton binds the arguments,
inspects the type, value and alignment of each, finds the compiled kernel and launches it, in
7–14 µs of host time. `launches` collects these launches. A `Plan` repeats one on other memory: it
allocates the answer and calls the C function behind Triton's launcher. The keeper of a plan must
ensure that shapes, strides, dtypes, device and each address modulo 16 equal the first launch's.

Programmatic dependent launch (`dependent`): by default the second of two kernels in one stream
starts after the first has ended and its writes are visible. Memory idles for about a microsecond.
As a dependent launch, the second kernel's programs take the places that the first kernel leaves
free, and wait in `await_previous` until all earlier work is done. They touch no memory before that.
This pays only behind a kernel that lets its dependents start early, as ours do: in CUDA graphs on
an H200 it saves 0.1 to 0.8 µs. Behind an ordinary kernel, the usual case in a program, it costs
0.2 to 0.6 µs (docs/lab_book.md). So it is an option, off by default.

Eviction hints (`load_hint`, `store_hint`): inputs and outputs pass through L2 together, and by
default the oldest line is evicted. Loads and stores may ask for `evict_last`: such lines are
evicted last. The rules on an H200 (docs/lab_book.md), by the bytes of the input:

- Loads ask from 1× L2 on. A smaller matrix would gain 0.3 to 0.6 µs too, but would fill L2 with an
  input that nobody reads again: the next reader of L2 then waits 2 to 4 µs for DRAM.
- Stores ask from 1× to 8× L2. The next kernel, which reads the output, finds more of it in L2: both
  kernels together take 1 to 4 % less. Of a larger output nothing stays, and a kernel by itself is
  up to 1 % faster without the hint.

It was not measured why the hints help a kernel by itself.
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
    """A recorded launch.

    Attributes:
        compiled: Triton's compiled kernel, None under its interpreter.
        grid: Programs along each of three axes.
        arguments: All arguments in the order of the kernel's parameters, constants included.
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
    """Launches a kernel the ordinary way, and records the launch inside a `launches` block.

    Args:
        function: A function decorated with ``@triton.jit`` or ``@gluon.jit``.
        grid: One to three numbers of programs.
        arguments: Positional arguments.
        constants: Keyword arguments.
        options: Triton's own options, such as ``num_warps``.
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
    """Scratch memory: launches write it before they read it, and nobody reads it afterwards."""
    made = torch.empty(shape, dtype=dtype, device=device)
    lent = _lending.get()
    if lent is not None:
        lent.append(made)
    return made


@contextmanager
def workspaces() -> Iterator[list[torch.Tensor]]:
    """Collects the memory that `workspace` returned to this thread inside the block."""
    lent: list[torch.Tensor] = []
    token = _lending.set(lent)
    try:
        yield lent
    finally:
        _lending.reset(token)


class Plan:
    """Records the kernel launch of the first call and replays it for similar inputs.

    Similar inputs have equal shape, strides, dtype, device and address modulo 16: all that Triton
    specialises for. A plan keeps no tensor alive. The cheapest call is

        made = plan.again(x.data_ptr())
        return plan(x) if made is None else made

    Args:
        carry: Launches the kernel on the inputs and returns its output. The kernel's first
            parameters are the inputs, then the output.
        index: The CUDA device's index; −1 on a CPU, where no launch is repeated.

    Attributes:
        again: Takes the address of each input. Returns the output, or None if the caller must call
            the plan itself.
        alike: The test that `alike` made from the inputs of an earlier call, or None.
    """

    __slots__ = ("_carry", "_index", "_tried", "again", "alike")

    def __init__(self, carry: Callable[..., torch.Tensor], index: int) -> None:
        self._carry, self._index, self._tried = carry, index, index < 0
        self.again: Callable[..., torch.Tensor | None] = _never
        self.alike: Callable[..., bool | None] = _never

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The output of `carry` for the inputs, on their device."""
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
    """A function that tests in 0.1 µs whether other tensors are like these.

    Uses Dynamo's TensorGuards to compare type, dtype, device, shape, strides, ``requires_grad`` and
    the dispatch keys, with all modes, transforms, tracing and negation that they show. It does not
    look at addresses, forward-mode differentiation or Dynamo.
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
    """`Plan.again`, or None where a repeated launch would be wrong. It keeps no tensor alive.

    Args:
        launched: The launch to repeat.
        inputs: Its inputs: the first arguments, in order.
        made: Its output: the next argument, and the last tensor.
        index: The CUDA device's index.
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
    """The C function behind Triton's launcher and its arguments, found by observing one launch.

    Args:
        launched: The launch to repeat.
        count: The number of its tensors.
        rest: Its arguments after the tensors.

    Returns:
        The function; its arguments before the stream, between the stream and the tensors, and after
        the tensors; whether the tensors and the later arguments are one tuple; and Triton's hook
        settings. None for an unknown launcher, or for one that needs scratch memory.
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
    """Whether to launch a kernel as a dependent of its predecessor: wanted, and supported."""
    return wanted and device.capability is not None and device.capability >= DEPENDENT_FROM


def launch_option(depends: bool) -> dict[str, bool]:
    """Triton's option for a dependent launch; empty otherwise, because the interpreter has none."""
    return {"launch_pdl": True} if depends else {}


@jit
def await_previous(DEPENDENT: tl.constexpr) -> None:
    """Waits for all earlier kernels, then lets the next kernel start its programs."""
    if DEPENDENT:
        tl.inline_asm_elementwise(WAIT, "=r", [], tl.int32, is_pure=False, pack=1)


def load_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the loads of ``x``, ``"evict_last"`` or none.

    Args:
        x: The input.
        keep: Whether loads ask for it; None asks from 1× L2 on.
    """
    wanted = beyond_l2(x) if keep is None else keep
    return LAST if wanted else ""


def store_hint(x: torch.Tensor, keep: bool | None) -> str:
    """Triton's eviction policy for the stores of an output as large as ``x``.

    Args:
        x: The input.
        keep: Whether stores ask for it; None asks from 1× to 8× L2.
    """
    wanted = LARGE <= _times_l2(x) < HUGE if keep is None else keep
    return LAST if wanted else ""


def beyond_l2(x: torch.Tensor) -> bool:
    """Whether a matrix is too large to stay in its device's L2."""
    return _times_l2(x) >= LARGE


def _times_l2(x: torch.Tensor) -> float:
    """Bytes of a matrix divided by the bytes of its device's L2; 0 where the L2 is unknown."""
    l2_bytes = device_of(x).l2_bytes
    return x.numel() * x.element_size() / l2_bytes if l2_bytes else 0.0
