"""Counts memory traffic: executes one call of a kernel on the CPU and adds up its requests.

A dispatch mode intercepts PyTorch's operations, the wrapped builder of Triton's interpreter
intercepts Triton's. Lanes that are masked off request nothing; an atomic is a load and a store.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from math import prod
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from experiments.data.errors import anonymous
from experiments.data.records import Count
from experiments.worker.describe import source_hash
from kernels.device import Device
from kernels.kernel import Kernel, Shape, as_tuple
from kernels.traffic import evaluate, formula

Method = Literal["interpreter", "dispatch"]
METHODS: dict[str, Method] = {"triton": "interpreter", "eager": "dispatch", "torch": "dispatch"}
NOT_COUNTABLE = {
    "torchscript": "TorchScript's fuser decides on a GPU what reaches memory",
    "inductor": "Inductor writes other code for a GPU than for the CPU of a count",
}
NOMINAL = "nominal: one operation of the library, taken to read and write once"
# These operations read a part of each row of their argument `self`: as many elements as a row of
# the argument named here has. Those in SHAPE_ONLY read no element of `self`.
PICKING = {"gather": "index", "nll_loss_forward": "target"}
SHAPE_ONLY = ("nll_loss_backward",)
NO_REQUESTS = dict.fromkeys(("loads", "stores", "load_bytes", "store_bytes"), 0)
# operations that write their argument and do not read it
OVERWRITERS = ("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_")
# Every Triton access, by block pointers and descriptors too, calls one of these methods of the
# interpreter's builder. For each: its requests, and the indices of its pointers and its mask.
ACCESSES: dict[str, tuple[tuple[str, ...], int, int | None]] = {
    "create_masked_load": (("load",), 0, 1),
    "create_masked_store": (("store",), 0, 2),
    "create_atomic_rmw": (("load", "store"), 1, 3),
    "create_atomic_cas": (("load", "store"), 0, None),
}


def count(name: str, kernel: Kernel, shape: Shape, dtype: torch.dtype, device: Device) -> Count:
    """The record of one call of a kernel at a point; ``name`` is its label, the device a CPU."""
    operation, traffic = kernel.operation, kernel.traffic()
    sizes = operation.sizes(shape)
    reads, writes = traffic.elements(sizes)
    method, tensors = METHODS.get(kernel.backend), list[Any]()
    reason = kernel.unsupported(shape, dtype, device)
    if method is None:
        why = f"nothing here executes {kernel.backend} step by step"
        reason = f"not countable: {NOT_COUNTABLE.get(kernel.backend, why)}"
    if reason is None:
        try:
            tensors = requested(kernel, *operation.make_inputs(shape, dtype, "cpu", 0))
        except Exception as error:  # a kernel may raise anything
            reason = f"not countable: it fails here with {anonymous(error)}"
    counted = reason is None
    return Count(
        kernel=name,
        operation=operation.name,
        params=asdict(kernel),
        source=source_hash(type(kernel).__module__),
        rows=shape[0],
        cols=shape[1],
        dtype=str(dtype).removeprefix("torch."),
        method=method if method and counted else "none",
        reason=NOMINAL if counted and kernel.backend == "torch" else reason,
        tensors=tensors,
        model_reads=reads,
        model_writes=writes,
        model_read_bytes=reads * dtype.itemsize + evaluate(traffic.read_bytes, sizes),
        model_write_bytes=writes * dtype.itemsize + evaluate(traffic.write_bytes, sizes),
        difference=difference(kernel, sizes, tensors) if counted else None,
    )


def difference(kernel: Kernel, sizes: Mapping[str, int], tensors: Sequence[Any]) -> str | None:
    """How a count differs from the model: ``reads 48 elements where the model says MN, 24``.

    None if it does not. Tensors of the point's dtype are compared in elements, those with a dtype
    of their own in bytes. ``sizes`` has the value of each symbol; `requested` returns ``tensors``.
    """
    operation, traffic = kernel.operation, kernel.traffic()
    arrays, triton = (*operation.inputs, *operation.outputs), kernel.backend == "triton"
    # an output that may have either dtype has the point's, unless a Triton kernel of ours makes it
    own_dtype = triton and not kernel.packages
    in_bytes = {a.name for a in arrays if a.dtype is not None and (own_dtype or not a.either)}
    if triton and traffic.further:  # the kernel may have further tensors, of float32
        in_bytes |= {t["name"] for t in tensors} - {a.name for a in arrays}
    parts = []
    for verb, kind, unit, model in (
        ("reads", "load_bytes", "bytes", traffic.read_bytes),
        ("reads", "loads", "elements", traffic.reads),
        ("writes", "store_bytes", "bytes", traffic.write_bytes),
        ("writes", "stores", "elements", traffic.writes),
    ):
        mine = (t for t in tensors if (t["name"] in in_bytes) is (unit == "bytes"))
        counted, modelled = sum(t[kind] for t in mine), evaluate(model, sizes)
        if counted != modelled:
            says = f"where the model says {formula(model)}, {modelled}"
            parts.append(f"{verb} {counted} {unit} {says}")
    return "; ".join(parts) or None


def requested(kernel: Kernel, *inputs: torch.Tensor) -> list[dict[str, Any]]:
    """The memory requests of one call of a kernel on these inputs, on the CPU.

    Returns:
        The fields of a `TensorCount` for each tensor that the call reads or writes.
    """
    call, operation = kernel.prepare(*inputs), kernel.operation
    recorder = Recorder({a.name: x for a, x in zip(operation.inputs, inputs, strict=True)})
    with recorder.recording():
        answer = call(*inputs)
    for array, y in zip(operation.outputs, as_tuple(answer), strict=True):
        recorder.rename(y, array.name)
    return recorder.totals()


class Recorder(TorchDispatchMode):
    """Adds up the memory requests of a call on named inputs.

    A PyTorch operation reads each argument once and writes each new result once. Views move
    nothing; an argument that is overwritten (``out=``, ``copy_``, ``fill_``) is only written, one
    that is updated in place is read and written. Operations on a part of a tensor count as if on
    all of it, except those in `PICKING`, which count the elements that they read.
    """

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._interpreting = False  # PyTorch calls inside Triton's interpreter are not traffic
        # tensors by the address of their memory; a reference keeps others from getting the address
        self._tensors: dict[int, torch.Tensor] = {}
        self._found: dict[int, dict[str, Any]] = {}
        self._inputs = {*inputs}
        for name, x in inputs.items():
            self.register(name, x)

    def register(self, name: str, tensor: torch.Tensor) -> bool:
        """Registers a tensor's memory under a name; returns whether it is new."""
        address = tensor.untyped_storage().data_ptr()
        if address in self._tensors:
            return False
        self._tensors[address] = tensor
        self._found[address] = {"name": name, "dtype": str(tensor.dtype)[6:], **NO_REQUESTS}
        return True

    def rename(self, tensor: torch.Tensor, name: str) -> None:
        """Renames the memory of a tensor, unless an input lies there."""
        one = self._found.get(tensor.untyped_storage().data_ptr())
        if one is not None and one["name"] not in self._inputs:
            one["name"] = name

    def totals(self) -> list[dict[str, Any]]:
        """The requests to each tensor that has any."""
        return [one for one in self._found.values() if one["loads"] or one["stores"]]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Counts the requests of PyTorch operations and Triton programs inside the block."""
        with ExitStack() as active:
            with suppress(ImportError):
                runtime = importlib.import_module("triton.runtime.interpreter")
                builder, function = runtime.InterpreterBuilder, runtime.InterpretedFunction
                for name, access in ACCESSES.items():
                    noting = self._access(getattr(builder, name), *access)
                    active.enter_context(patch.object(builder, name, noting))
                run = function.run

                def launch(function: Any, *arguments: Any, **options: Any) -> Any:
                    with patch.object(self, "_interpreting", True):
                        return run(function, *arguments, **options)

                active.enter_context(patch.object(function, "run", launch))
            active.enter_context(self)
            yield

    def _access(
        self, original: Any, kinds: Sequence[str], pointers_at: int, mask_at: int | None
    ) -> Any:
        """Wraps a method of the interpreter's builder to count its requests, as in `ACCESSES`."""

        def access(builder: Any, *arguments: Any, **options: Any) -> Any:
            pointers = arguments[pointers_at]
            mask = None if mask_at is None else arguments[mask_at]
            active = True if mask is None else mask.data
            lanes = np.broadcast_to(active, np.shape(pointers.data)).astype(bool)
            addresses = np.asarray(pointers.data).astype(np.int64)[lanes]
            width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
            for address, tensor in self._tensors.items():
                end = address + tensor.untyped_storage().nbytes()
                inside = (addresses >= address) & (addresses < end)
                self._add(address, kinds, int(inside.sum()) * width, tensor.itemsize)
                addresses = addresses[~inside]
            if addresses.size:  # they are in no registered tensor
                other = {"name": "other", "dtype": f"{width} bytes", **NO_REQUESTS}
                self._found.setdefault(-width, other)
                self._add(-width, kinds, addresses.size * width, width)
            return original(builder, *arguments, **options)

        return access

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Executes a PyTorch operation and counts its requests."""
        if self._interpreting:
            return func(*args, **(kwargs or {}))
        name, schema = func._schema.name.partition("::")[2], func._schema
        given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | (kwargs or {})
        loads, stores = self._reads_and_writes(name, schema, given)
        result = func(*args, **(kwargs or {}))
        for index, one in enumerate(result if isinstance(result, tuple | list) else (result,)):
            part = schema.returns[min(index, len(schema.returns) - 1)].name
            for tensor in _tensors(one):
                if self.register(f"{name}.{part}" if part else name, tensor):
                    stores += [] if "empty" in name else [tensor]
        if stores or not _tensors(result):
            # otherwise it made a view, or memory that it has not written
            for kind, tensors in (("load", loads), ("store", stores)):
                for x in tensors:  # elements of a broadcast axis (stride 0) count once
                    sizes = [n for n, stride in zip(x.shape, x.stride(), strict=True) if stride]
                    size = prod(sizes) * x.itemsize if x.numel() else 0
                    self._add(x.untyped_storage().data_ptr(), (kind,), size, x.itemsize)
        return result

    def _reads_and_writes(
        self, name: str, schema: Any, given: Mapping[str, Any]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Those tensors among an operation's arguments that it reads, and those that it writes."""
        loads: list[torch.Tensor] = []
        stores: list[torch.Tensor] = []
        template = name.startswith("new_") or name.endswith("_like")  # gives only shape and dtype
        for argument in schema.arguments:
            written = argument.alias_info is not None and argument.alias_info.is_write
            unread = template or (written and (argument.is_out or name in OVERWRITERS))
            unread |= argument.name == "self" and name in SHAPE_ONLY
            for tensor in _tensors(given.get(argument.name)):
                self.register(argument.name, tensor)  # one made before the block is new here
                stores += [tensor] if written else []
                if argument.name == "self" and name in PICKING:
                    tensor = tensor[:, : given[PICKING[name]][:1].numel()]
                loads += [] if unread else [tensor]
        return loads, stores

    def _add(self, address: int, kinds: Sequence[str], size: int, width: int) -> None:
        """Adds requests of ``size`` bytes, in elements of ``width`` bytes, to a tensor."""
        for kind in kinds:
            self._found[address][f"{kind}_bytes"] += size
            self._found[address][f"{kind}s"] += size // width


def _tensors(value: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]
