"""The requests of one call, those of PyTorch's operations included, and the memory they went to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.utils._python_dispatch import TorchDispatchMode

Addresses = npt.NDArray[np.int64]
Kind = Literal["load", "store"]
# What an operation reads of its argument `self`: of each row as many elements as its row of another
# argument picks, or nothing but a shape
PICKING = {"gather": "index", "nll_loss_forward": "target"}
SHAPED = ("nll_loss_backward",)
OVERWRITERS = ("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_")


@dataclass(eq=False)
class Buffer:
    """The memory of a tensor and of all its views.

    Attributes:
        name: ``x``, ``y``, or what made it, e.g. ``max.indices``.
        tensor: The first that was seen of it; held, so that its addresses are given to no other.
    """

    name: str
    tensor: torch.Tensor

    @property
    def span(self) -> tuple[int, int]:
        """First address and the one past its last."""
        storage = self.tensor.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


@dataclass(frozen=True)
class Request:
    """What one program asked of one buffer in one instruction.

    Attributes:
        kind: A load or a store.
        buffer: Where it went; None for memory that no tensor of the call owns.
        addresses: One of each element, in bytes; masked-off lanes left out.
        width: Bytes of an element as it was requested.
    """

    kind: Kind
    buffer: Buffer | None
    addresses: Addresses
    width: int


class Recorder:
    """Takes down the requests of a call on named inputs."""

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        self.requests: list[Request] = []
        self.interpreting = False  # what Triton's interpreter does to its arguments is not traffic
        self._buffers: dict[int, Buffer] = {}
        for name, x in inputs.items():
            self.meet(name, x)

    def buffer(self, tensor: torch.Tensor) -> Buffer | None:
        """The known buffer that a tensor lies in."""
        return self._buffers.get(tensor.untyped_storage().data_ptr())

    def meet(self, name: str, tensor: torch.Tensor) -> None:
        """Makes a new tensor's memory known; a name that is taken gets a number."""
        taken = {buffer.name for buffer in self._buffers.values()}
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name}#{number}"
        self._buffers[tensor.untyped_storage().data_ptr()] = Buffer(unique, tensor)

    def whole(self, kind: Kind, tensor: torch.Tensor) -> None:
        """An operation of PyTorch's reads or writes every element of a tensor once.

        A broadcast element is one element, however often the shape repeats it.
        """
        self._note(kind, self.buffer(tensor), distinct_addresses(tensor), tensor.element_size())

    def lanes(self, kind: Kind, addresses: Addresses, width: int) -> None:
        """A program reads or writes the elements at these addresses, one for each active lane."""
        elsewhere = np.ones(addresses.shape, dtype=bool)
        for buffer in self._buffers.values():
            first, end = buffer.span
            inside = (addresses >= first) & (addresses < end)
            elsewhere &= ~inside
            self._note(kind, buffer, addresses[inside], width)
        self._note(kind, None, addresses[elsewhere], width)

    def _note(self, kind: Kind, buffer: Buffer | None, addresses: Addresses, width: int) -> None:
        if addresses.size:
            self.requests.append(Request(kind, buffer, addresses, width))


def distinct_addresses(tensor: torch.Tensor) -> Addresses:
    """The address of every element that a tensor holds, each once, ascending."""
    offsets = np.zeros(min(tensor.numel(), 1), dtype=np.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride and size > 1 and offsets.size:
            steps = np.arange(size, dtype=np.int64) * stride
            offsets = (offsets[:, None] + steps).ravel()
    return np.unique(tensor.data_ptr() + offsets * tensor.element_size())


class Operations(TorchDispatchMode):
    """Takes down every operation of PyTorch's executed while it is active.

    An operation reads each tensor it is given once and writes each tensor it makes once. Views move
    nothing; what an operation overwrites (``out=``, ``copy_``, ``fill_``) it only writes, what it
    updates in place it reads and writes. Operations that touch a part of a tensor count as if they
    touched it whole, but for `PICKING`, which count as many elements as they read, the first of
    each row.
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
        made = [*_tensors(result)]
        results = result if isinstance(result, tuple | list) else (result,)
        for index, one in enumerate(results):
            part = schema.returns[min(index, len(schema.returns) - 1)].name if made else ""
            for tensor in _tensors(one):
                if recorder.buffer(tensor) is None:
                    recorder.meet(f"{name}.{part}" if part else name, tensor)
                    stores += [] if "empty" in name else [tensor]
        if made and not stores:
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
            overwritten = written and (argument.is_out or name in OVERWRITERS)
            for tensor in _tensors(given.get(argument.name)):
                if self._recorder.buffer(tensor) is None:  # it was made before the call
                    self._recorder.meet(argument.name, tensor)
                stores += [tensor] if written else []
                if argument.name == "self" and name in PICKING:
                    tensor = tensor[:, : given[PICKING[name]][:1].numel()]
                unread = overwritten or (argument.name == "self" and name in SHAPED)
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
