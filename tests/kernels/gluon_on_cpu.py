"""Runs a Gluon kernel of `kernels` on the CPU, a cluster after another: Gluon has no interpreter.

The kernel's own Python runs on tensors of PyTorch in place of Triton's; layouts mean nothing. Its
PTX is executed too, instruction by instruction, by all warps of a cluster in step, so that what the
exchange computes is what its text says. It shows values; not races, and nothing of the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import torch

Values = Any  # tensors and numbers alike


class Pointer:
    """Places of elements in the memory of a tensor."""

    def __init__(self, memory: torch.Tensor, places: Values) -> None:
        self.memory, self.places = memory, places
        self.dtype = SimpleNamespace(element_ty=memory.dtype)

    def __add__(self, step: Values) -> Pointer:
        return Pointer(self.memory, self.places + step)

    def __getitem__(self, index: Any) -> Pointer:
        return Pointer(self.memory, self.places[index])

    def __sub__(self, other: Pointer) -> Values:
        return self.places - other.places


def pointer(x: torch.Tensor) -> Pointer:
    """To the first element of ``x``; what may be touched is its storage."""
    size = x.untyped_storage().nbytes() // x.element_size()
    return Pointer(torch.as_strided(x, (size,), (1,), 0), x.storage_offset())


def run(kernel: Any, clusters: int, arguments: list[Any], constants: dict[str, Any]) -> None:
    """Runs ``kernel`` on so many clusters, as `kernels.launch.launch` would."""
    programs, warps = constants.pop("num_ctas"), constants.pop("num_warps")
    constants.pop("maxnreg", None)
    given = [pointer(a) if isinstance(a, torch.Tensor) else a for a in arguments]
    for number in range(clusters):
        gl = _language(programs, warps, number)
        _on(gl, kernel.fn, {})(*given, **constants)


def function(jitted: Any) -> Callable[..., Any]:
    """The Python of one function, for a program of one warp."""
    return _on(_language(1, 1, 0), jitted.fn, {})


def _on(gl: Any, function: Any, made: dict[Any, Any]) -> Callable[..., Any]:
    """A kernel's Python, and that of all that it calls, with another language."""
    if function in made:
        return made[function]
    names: dict[str, Any] = {"gl": gl}
    copy = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made[function] = copy
    for name, value in function.__globals__.items():
        inner = getattr(value, "fn", None)
        if name in function.__code__.co_names and name != "gl":
            plain = getattr(value, "value", value)  # of a constexpr
            names[name] = plain if inner is None else _on(gl, inner, made)
    names["in_registers"] = lambda *_: None
    names["__builtins__"] = __builtins__
    return copy


def _language(programs: int, warps: int, number: int) -> Any:
    def as_tensor(value: Values) -> torch.Tensor:
        return torch.as_tensor(value, dtype=torch.float32 if isinstance(value, float) else None)

    def load(place: Pointer, mask: Values = True, other: float = 0.0, **_: Any) -> torch.Tensor:
        places, inside = torch.broadcast_tensors(as_tensor(place.places), as_tensor(mask))
        read = place.memory[torch.where(inside, places, 0)]
        return torch.where(inside, read, torch.tensor(other).to(read.dtype))

    def store(place: Pointer, value: Values, mask: Values = True, **_: Any) -> None:
        inside = as_tensor(mask).broadcast_to(as_tensor(place.places).shape)
        written = as_tensor(value).broadcast_to(inside.shape)
        place.memory[as_tensor(place.places)[inside]] = written[inside].to(place.memory.dtype)

    def maximum(a: torch.Tensor, b: Values, propagate_nan: Any = None) -> torch.Tensor:
        keeping = getattr(propagate_nan, "name", "") == "ALL"
        return (torch.maximum if keeping else torch.fmax)(a, as_tensor(b))

    def reduced(function: Callable[..., Values]) -> Callable[..., Values]:
        return lambda x, axis: function(x, axis)

    def assembly(text: str, _: str, values: list[Any], dtype: Any, **__: Any) -> Values:
        if "mov.b32 $0, $1;" in text:
            return values[0]
        if "shl.b32 $0, $2, 16;" in text:
            return values[0].float()
        if "rcp.approx" in text or ".sat" in text:
            return Assembly.of_elements(text, values)
        if "%ctaid" in text:
            return torch.tensor(number, dtype=torch.int32)
        if ".shared .align" in text:
            return None
        outputs = Assembly(programs, warps).execute(text, [v for v in values if v is not None])
        return outputs if isinstance(dtype, tuple) else outputs[0]

    return SimpleNamespace(
        **{name: getattr(torch, name) for name in ("int32", "int64", "float32", "bfloat16")},
        **{name: getattr(torch, name) for name in ("exp2", "log", "reshape")},
        maximum=maximum,
        minimum=lambda a, b: torch.fmin(a, as_tensor(b)),
        num_warps=lambda: warps,
        num_ctas=lambda: programs,
        arange=lambda first, last, layout: torch.arange(first, last, dtype=torch.int32),
        SliceLayout=lambda *_: None,
        full=lambda shape, value, dtype, layout: torch.full(shape, value, dtype=dtype),
        zeros=lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype),
        cast=lambda value, dtype: torch.as_tensor(value).to(dtype),
        where=lambda test, a, b: torch.where(test, as_tensor(a), as_tensor(b)),
        # Triton's maximum passes over NaN
        max=lambda x, axis: x.nan_to_num(-torch.inf, torch.inf, -torch.inf).amax(axis),
        sum=reduced(torch.sum),
        convert_layout=lambda x, *_, **__: x,
        static_range=range,
        load=load,
        store=store,
        inline_asm_elementwise=assembly,
    )


class Assembly:
    """A few instructions of PTX, executed by all lanes of a cluster: [programs, warps, 32]."""

    def __init__(self, programs: int, warps: int) -> None:
        self.shape = (programs, warps, 32)
        program, warp, lane = np.indices(self.shape)
        self.values: dict[str, Any] = {
            **{"%laneid": lane, "%tid.x": warp * 32 + lane, "%cluster_ctarank": program},
            "$slots": program << 20,  # each program's shared memory begins at an address of its own
        }
        self.memory: dict[int, np.float32] = {}
        self.signalled = np.zeros(programs, int)

    def execute(self, text: str, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The outputs, [slices], of a block whose last input is the address of the slots."""
        programs, warps, _ = self.shape
        first = 1 + max(int(n) for n in re.findall(r"\$(\d)", text)) - len(inputs) - 1
        for place, value in enumerate(inputs, first):
            column = value.float().numpy().reshape(programs, warps, 1)
            self.values[f"${place}"] = np.broadcast_to(column, self.shape)
        self.values[f"${first + len(inputs)}"] = self.values["$slots"]
        for line in text.strip("{}\n ").splitlines():
            self.step(line.strip().rstrip(";"))
        outputs = [self.values[f"${n}"] for n in range(first)]
        for output in outputs:
            assert all(np.array_equal(output[..., 0], output[..., n], True) for n in range(32))
            assert np.array_equal(output.reshape(-1), np.full(output.size, output.flat[0]), True)
        return tuple(torch.from_numpy(output[..., 0].reshape(-1).copy()) for output in outputs)

    @classmethod
    def of_elements(cls, text: str, inputs: list[Any]) -> torch.Tensor:
        """``$0`` of a block of one line, for each element of the inputs, ``$1`` and so on."""
        given = np.broadcast_arrays(*(np.asarray(value, np.float32) for value in inputs))
        block = cls(1, 1)
        block.shape = given[0].shape
        block.values = {f"${n}": value for n, value in enumerate(given, 1)}
        for line in text.strip("{} ;").split(";"):
            block.step(line.strip())
        return torch.from_numpy(np.array(block.values["$0"]))

    def step(self, line: str) -> None:
        if not line or line.startswith((".reg", "WAIT", "barrier", "bar.", "mbarrier", "@!p bra")):
            return
        guard = self.values["p"] if line.startswith("@p ") else np.ones(self.shape, bool)
        name, rest = line.removeprefix("@p ").split(" ", 1)
        places = [part.strip() for part in re.split(r",(?![^{]*})", rest)]
        if name.startswith("st."):
            self.send(self.at(places[0]), places[1], guard)
        elif name.startswith("ld.shared"):
            address = self.at(places[1])
            for n, register in enumerate(places[0].strip("{}").split(",")):
                self.put(register.strip(), self.read(address + 4 * n, guard), guard)
        elif name.startswith("mov.b64"):
            self.values[places[0]] = places[1].strip("{}").split(", ")
        else:
            with np.errstate(all="ignore"):
                self.put(places[0], self.compute(name, [self.of(p) for p in places[1:]]), guard)

    def compute(self, name: str, given: list[Any]) -> Any:
        a, b, c, *_ = *given, None, None
        kind, f32 = name.split(".")[0], "f32" in name
        if kind == "mov":
            result = a.view(np.int32) if name == "mov.b32" and a.dtype == np.float32 else a
        elif kind == "shr":
            result = a >> b
        elif kind in ("and", "xor"):
            result = a & b if kind == "and" else a ^ b
        elif kind in ("mad", "fma"):
            result = a * b + c
        elif kind in ("add", "sub", "mul"):
            result = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[kind](a, b)
        elif kind == "max":
            result = np.fmax(a, b)
        elif kind == "setp":
            result = a < b if ".lt" in name else a == b
        elif kind == "selp":
            result = np.where(c, a, b)
        elif kind == "mapa":
            result = (a & 0xFFFFF) + (b << 20)
        elif kind == "ex2":
            result = np.exp2(a)
        elif kind == "div":
            result = a / b
        elif kind == "rcp":
            result = 1 / a
        elif kind == "abs":
            result = np.abs(a)
        elif kind == "copysign":
            result = np.copysign(b, a)
        elif kind == "redux":
            result = np.broadcast_to(a.max(axis=2, keepdims=True), self.shape)
        elif kind == "shfl":
            lane = np.arange(32)
            n = int(b.flat[0])
            result = a[..., lane ^ n if ".bfly" in name else np.full(32, n)]
        else:
            raise AssertionError(f"no such instruction here: {name}")
        if ".sat" in name:
            result = np.fmin(np.fmax(result, 0), 1)
        return result.astype(np.float32) if f32 and kind != "setp" else result

    def of(self, place: str) -> Any:
        if place.startswith("0f"):
            return np.full(self.shape, np.uint32(int(place[2:], 16))).astype(np.uint32).view("f4")
        if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", place):
            return np.full(self.shape, int(place, 0))
        return self.values[place]

    def put(self, register: str, value: Any, guard: Any) -> None:
        if register in ("ordered",):
            value = np.asarray(value).astype(np.int32)
        elif isinstance(value, np.ndarray) and value.dtype == np.int32 and register == "most":
            value = value.view(np.float32)
        old = self.values.get(register, np.zeros_like(value))
        self.values[register] = np.where(guard, value, old)

    def at(self, place: str) -> Any:
        register, _, offset = place.strip("[]").partition("+")
        return self.values[register] + int(offset or 0)

    def send(self, address: Any, message: str, guard: Any) -> None:
        words = [self.of(word) for word in self.values[message]]
        for index in np.argwhere(guard):
            for n, word in enumerate(words):
                place = int(address[tuple(index)]) + 4 * n
                assert self.memory.setdefault(place, word[tuple(index)]) is not None
                assert self.memory[place].tobytes() == word[tuple(index)].tobytes(), "sent twice"

    def read(self, address: Any, guard: Any) -> Any:
        result = np.zeros(self.shape, np.float32)
        for index in map(tuple, np.argwhere(guard)):
            result[index] = self.memory[int(address[index])]
        return result
