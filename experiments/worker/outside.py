"""A kernel in anybody's file: one function, or a `Kernel` class, of a Python file anywhere.

The file is loaded once, in a worker that measures nothing else, so its changes to PyTorch or to the
clock cannot reach other kernels. It is refused if its import makes any.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import sympy

from experiments.child import ROOT
from experiments.worker import clock
from kernels.kernel import Kernel, Operation
from kernels.traffic import M, N, Traffic

BACKEND = "outside"  # a class of tolerances of its own


class BadFile(Exception):
    """A file or function that cannot be measured; one line, with the file and the line at fault."""


@dataclasses.dataclass(frozen=True)
class Function(Kernel):
    """A function of a file, under an operation of ours.

    Attributes:
        file: The file's name, without its folder.
        function: The function's name.
        options: Keyword arguments of every call.
    """

    file: str = ""
    function: str = ""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    backend = BACKEND
    on_chip = sympy.Integer(0)  # unknown
    called: ClassVar[Callable[..., Any]]

    def __call__(self, *inputs: Any, **_: Any) -> Any:
        """The function's answer."""
        return type(self).called(*inputs, **self.options)


def build(config: Mapping[str, Any]) -> Kernel:
    """The kernel that ``file`` and ``function`` of a configuration name.

    Args:
        config: ``file``, ``function``, ``operation`` (of ours, for a function), ``traffic`` (in
            elements, such as ``3*M*N``, or None for the compulsory one) and ``options``.

    Raises:
        BadFile: there is no such file, function or operation, or the file cannot be imported.
    """
    path, name = Path(str(config.get("file"))), str(config.get("function"))
    options = dict(config.get("options") or {})
    module = load(path)
    found = getattr(module, name, None)
    if found is None:
        known = ", ".join(sorted(measurable(module))) or "none"
        raise BadFile(f"{path.name} has no {name!r}; its functions are {known}")
    if inspect.isclass(found) and issubclass(found, Kernel):
        try:
            return found(**options)
        except (TypeError, ValueError) as error:
            raise BadFile(f"{path.name}: {name}: {error}") from None
    if not callable(found):
        raise BadFile(f"{path.name}: {name} is a {type(found).__name__}, which cannot be called")
    operation = operation_named(str(config.get("operation")))
    own = {
        "operation": operation,
        "moves": traffic_of(config.get("traffic"), operation),
        "called": staticmethod(found),
        "__doc__": inspect.getdoc(found) or module.__doc__ or "",
        "__module__": module.__name__,
    }
    if uses_triton(module) and os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        own["backend"] = "triton"  # by its interpreter: checked, and not timed
    kind: type[Function] = type(name, (Function,), own)
    return kind(path.name, name, options)


@cache
def load(path: Path) -> ModuleType:
    """The module of a file, imported once; its folder is searched for what the file imports.

    Raises:
        BadFile: it is no Python file, or its import fails.
    """
    if not path.is_file() or path.suffix != ".py":
        raise BadFile(f"{path} is no Python file")
    path = path.resolve()
    before = clock.state()
    name = f"outside_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise BadFile(f"{path.name}{line_of(error, path)}: {_words(error)}") from None
    if names := clock.changes(before):
        raise BadFile(f"{path.name} changes {names}; nothing that others use may be changed")
    return module


def measurable(module: ModuleType) -> list[str]:
    """The names of functions and kernels that a file itself defines."""
    return [
        name
        for name, one in vars(module).items()
        if callable(one) and one.__module__ == module.__name__ and not name.startswith("_")
    ]


def inspect_file(config: Mapping[str, Any]) -> dict[str, Any]:
    """What ``file`` and ``function`` name, for the command line: kernels, and their operation.

    An operation's class stands for all kernels of that operation in the file.

    Raises:
        BadFile: see `build`.
    """
    path, name = Path(str(config.get("file"))), str(config.get("function"))
    module = load(path)
    found = getattr(module, name, None)
    if inspect.isclass(found) and issubclass(found, Operation):
        kernels = [
            key
            for key, one in vars(module).items()
            if inspect.isclass(one)
            and issubclass(one, Kernel)
            and one.__module__ == module.__name__
            and isinstance(getattr(one, "operation", None), found)
        ]
        if not kernels:
            raise BadFile(f"{path.name}: no Kernel class has the operation {name}")
        return {"functions": kernels, "operation": getattr(found, "name", name), "own": True}
    kernel = build(config)
    own = not isinstance(kernel, Function)
    return {"functions": [name], "operation": kernel.operation.name, "own": own}


@cache
def operations() -> dict[str, Operation]:
    """The operations of ``kernels/`` by name."""
    found: dict[str, Operation] = {}
    for path in sorted((ROOT / "kernels").glob("*/operation.py")):
        module = importlib.import_module(f"kernels.{path.parent.name}.operation")
        for one in vars(module).values():
            if isinstance(one, Operation):
                found[one.name] = one
    return found


def is_ours(operation: Operation) -> bool:
    """Whether an operation is one of ``kernels/``, which any process can make."""
    return operations().get(operation.name) is operation


def operation_named(name: str) -> Operation:
    """An operation of ours.

    Raises:
        BadFile: there is none of that name.
    """
    known = operations()
    if name not in known:
        raise BadFile(f"operation={name} is unknown; there are {', '.join(sorted(known))}")
    return known[name]


def traffic_of(text: Any, operation: Operation) -> Traffic:
    """The traffic that a formula declares, as reads; the operation's compulsory one without.

    Raises:
        BadFile: it is no formula in M and N.
    """
    if text is None:
        return operation.compulsory
    allowed = set("MN0123456789+-*/() .")
    try:
        if not str(text).strip() or not set(str(text)) <= allowed or len(str(text)) > 100:
            raise ValueError
        total = sympy.sympify(str(text), locals={"M": M, "N": N})
        writes = operation.compulsory.writes
        return Traffic(reads=sympy.expand(total - writes), writes=writes)
    except (ValueError, TypeError, SyntaxError, sympy.SympifyError):
        raise BadFile(f"traffic={text} is no formula in M and N, such as 3*M*N") from None


def uses_triton(module: ModuleType) -> bool:
    """Whether a file has functions that Triton decorated."""
    return any(type(one).__module__.startswith("triton.runtime") for one in vars(module).values())


def line_of(error: BaseException, path: Path) -> str:
    """``:12``, the last line of a file that an error came through; empty where it was none."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f":{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
