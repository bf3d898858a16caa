"""What one call asks of memory: PyTorch's operations, and Triton's under its interpreter.

Masked-off lanes ask for nothing, and an atomic is a load and a store.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.kernel import Kernel, as_tuple

Kind = Literal["load", "store"]
# What an operation reads of its argument `self`: of each row as many elements as its row of another
# argument picks, or nothing but a shape
PICKING = {"gather": "index", "nll_loss_forward": "target"}
SHAPED = ("nll_loss_backward",)
OVERWRITERS = ("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_")
# All forms of access, block pointers and descriptors too, end in these methods of the interpreter's
# builder. For each: what it does, and which of its arguments are the pointers and the mask.
ACCESSES: dict[str, tuple[tuple[Kind, ...], int, int | None]] = {
    "create_masked_load": (("load",), 0, 1),
    "create_masked_store": (("store",), 0, 2),
    "create_atomic_rmw": (("load", "store"), 1, 3),
    "create_atomic_cas": (("load", "store"), 0, None),
}


def requested(kernel: Kernel, *inputs: torch.Tensor) -> list[dict[str, Any]]:
    """All that one call of a kernel on its inputs, on the CPU, asks of memory.

    Returns:
        For each tensor that is touched its ``name`` and ``dtype``, the elements in ``loads`` and
        ``stores``, and ``load_bytes`` and ``store_bytes``, as a count record has them.
    """
    call, operation = kernel.prepare(*inputs), kernel.operation
    given = {array.name: x for array, x in zip(operation.inputs, inputs, strict=True)}
    recorder = Recorder(given)
    with recorder.recording():
        answer = call(*inputs)
    for array, y in zip(operation.outputs, as_tuple(answer), strict=True):
        recorder.rename(y, array.name, but=given)
    return recorder.totals()


class Recorder:
    """Adds up the requests of a call on named inputs."""

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        self.interpreting = False  # what Triton's interpreter does to its arguments is not traffic
        # Tensors by the address of their memory; held, so that no other is given the address
        self._tensors: dict[int, torch.Tensor] = {}
        self._found: dict[int, dict[str, Any]] = {}
        for name, x in inputs.items():
            self.meet(name, x)

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies in memory that was met."""
        return tensor.untyped_storage().data_ptr() in self._tensors

    def meet(self, name: str, tensor: torch.Tensor) -> None:
        """Makes a new tensor's memory known; a name that is taken gets a number."""
        taken = {one["name"] for one in self._found.values()}
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name}#{number}"
        place = tensor.untyped_storage().data_ptr()
        self._tensors[place] = tensor
        self._found[place] = _nothing(unique, str(tensor.dtype).removeprefix("torch."))

    def rename(self, tensor: torch.Tensor, name: str, but: Mapping[str, Any]) -> None:
        """Gives the memory of a tensor another name, unless it has one of ``but``."""
        one = self._found.get(tensor.untyped_storage().data_ptr())
        if one is not None and one["name"] not in but:
            one["name"] = name

    def whole(self, kind: Kind, tensor: torch.Tensor) -> None:
        """An operation of PyTorch's reads or writes every element of a tensor once.

        A broadcast element is one element, however often the shape repeats it.
        """
        sizes = [n for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride]
        elements = prod(sizes) if tensor.numel() else 0
        one = self._found[tensor.untyped_storage().data_ptr()]
        _add(one, kind, elements * tensor.itemsize, tensor.itemsize)

    def lanes(self, kind: Kind, addresses: Any, width: int) -> None:
        """A program reads or writes ``width`` bytes at each of these addresses."""
        for place, tensor in self._tensors.items():
            inside = (addresses >= place) & (addresses < place + tensor.untyped_storage().nbytes())
            _add(self._found[place], kind, int(inside.sum()) * width, tensor.itemsize)
            addresses = addresses[~inside]
        if addresses.size:  # memory that no tensor of the call owns
            other = self._found.setdefault(-width, _nothing("other", f"{width} bytes"))
            _add(other, kind, addresses.size * width, width)

    def totals(self) -> list[dict[str, Any]]:
        """The tensors that were touched."""
        return [one for one in self._found.values() if one["loads"] or one["stores"]]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Takes down every operation of PyTorch and every Triton program inside the block."""
        with ExitStack() as active:
            try:
                runtime = importlib.import_module("triton.runtime.interpreter")
            except ImportError:
                runtime = None
            if runtime is not None:
                for name in ACCESSES:
                    access = self._access(getattr(runtime.InterpreterBuilder, name), name)
                    active.enter_context(patch.object(runtime.InterpreterBuilder, name, access))
                function = runtime.InterpretedFunction
                run = function.run

                def launch(function: Any, *arguments: Any, **options: Any) -> Any:
                    self.interpreting = True
                    try:
                        return run(function, *arguments, **options)
                    finally:
                        self.interpreting = False

                active.enter_context(patch.object(function, "run", launch))
            active.enter_context(_Operations(self))
            yield

    def _access(self, original: Any, name: str) -> Any:
        kinds, pointers_at, mask_at = ACCESSES[name]

        def access(builder: Any, *arguments: Any, **options: Any) -> Any:
            pointers = arguments[pointers_at]
            mask = (
                True if mask_at is None or arguments[mask_at] is None else arguments[mask_at].data
            )
            active = np.broadcast_to(mask, np.shape(pointers.data)).ravel().astype(bool)
            addresses = np.asarray(pointers.data).astype(np.int64).ravel()[active]
            width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
            for kind in kinds:
                self.lanes(kind, addresses, width)
            return original(builder, *arguments, **options)

        return access


def _nothing(name: str, dtype: str) -> dict[str, Any]:
    fields = ("loads", "stores", "load_bytes", "store_bytes")
    return {"name": name, "dtype": dtype, **dict.fromkeys(fields, 0)}


def _add(one: dict[str, Any], kind: Kind, size: int, width: int) -> None:
    one[f"{kind}_bytes"] += size
    one[f"{kind}s"] += size // width


class _Operations(TorchDispatchMode):
    """Takes down every operation of PyTorch's executed while it is active.

    An operation reads each tensor it is given once and writes each tensor it makes once. Views move
    nothing; what an operation overwrites (``out=``, ``copy_``, ``fill_``) it only writes, what it
    updates in place it reads and writes. Operations that touch a part of a tensor count as if they
    touched it whole, but for `PICKING`, which count as many elements as they read.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Executes an operation and notes what it moved."""
        recorder, given = self._recorder, kwargs or {}
        if recorder.interpreting:
            return func(*args, **given)
        name, schema = func._schema.name.partition("::")[2], func._schema
        loads, stores = self._asked(name, schema, args, given)
        result = func(*args, **given)
        results = result if isinstance(result, tuple | list) else (result,)
        for index, one in enumerate(results):
            for tensor in _tensors(one):
                if not recorder.knows(tensor):
                    part = schema.returns[min(index, len(schema.returns) - 1)].name
                    recorder.meet(f"{name}.{part}" if part else name, tensor)
                    stores += [] if "empty" in name else [tensor]
        if any(True for _ in _tensors(result)) and not stores:
            return result  # a view, or memory that nothing has been written to yet
        for tensor in loads:
            recorder.whole("load", tensor)
        for tensor in stores:
            recorder.whole("store", tensor)
        return result

    def _asked(
        self, name: str, schema: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Of the tensors that an operation is given those that it reads, and those it writes."""
        given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
        loads: list[torch.Tensor] = []
        stores: list[torch.Tensor] = []
        for argument in schema.arguments:
            written = argument.alias_info is not None and argument.alias_info.is_write
            unread = written and (argument.is_out or name in OVERWRITERS)
            unread |= argument.name == "self" and name in SHAPED
            for tensor in _tensors(given.get(argument.name)):
                if not self._recorder.knows(tensor):  # it was made before the call
                    self._recorder.meet(argument.name, tensor)
                stores += [tensor] if written else []
                if argument.name == "self" and name in PICKING:
                    tensor = tensor[:, : given[PICKING[name]][:1].numel()]
                loads += [] if unread else [tensor]
        if name.startswith("new_") or name.endswith("_like"):
            loads = []  # of a model for shape and dtype nothing is read
        return loads, stores


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)
