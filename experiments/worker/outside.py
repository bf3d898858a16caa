"""A kernel in anybody's file: one function, or a `Kernel` class, of a Python file anywhere.

The file is loaded once, in a worker that measures nothing else, so its changes to PyTorch or to the
clock cannot reach other kernels. It is refused if its import makes any.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import sympy

from experiments.child import ROOT, one_line
from experiments.worker import clock
from kernels.kernel import Kernel, Operation
from kernels.traffic import M, N, Traffic

BACKEND = "outside"  # a class of tolerances of its own


class BadJob(Exception):
    """A job that cannot be run as configured; one line for its user, with the line at fault."""


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
        BadJob: there is no such file, function or operation, or the file cannot be imported.
    """
    path, name = Path(str(config.get("file"))), str(config.get("function"))
    options = dict(config.get("options") or {})
    module = load(path)
    found = getattr(module, name, None)
    if found is None:
        known = ", ".join(sorted(_own(module))) or "none"
        raise BadJob(f"{path.name} has no {name!r}; its functions are {known}")
    if inspect.isclass(found) and issubclass(found, Kernel):
        try:
            return found(**options)
        except (TypeError, ValueError) as error:
            raise BadJob(f"{path.name}: {name}: {error}") from None
    if not callable(found):
        raise BadJob(f"{path.name}: {name} is a {type(found).__name__}, which cannot be called")
    operation = operation_named(str(config.get("operation")))
    own = {
        "operation": operation,
        "moves": traffic_of(config.get("traffic"), operation),
        "called": staticmethod(found),
        "__doc__": inspect.getdoc(found) or module.__doc__ or "",
        "__module__": module.__name__,
    }
    triton = any(type(one).__module__.startswith("triton.runtime") for one in vars(module).values())
    if triton and os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        own["backend"] = "triton"  # by its interpreter: checked, and not timed
    kind: type[Function] = type(name, (Function,), own)
    return kind(path.name, name, options)


@cache
def load(path: Path) -> ModuleType:
    """The module of a file, imported once; its folder is searched for what the file imports.

    Raises:
        BadJob: it is no Python file, or its import fails.
    """
    if not path.is_file() or path.suffix != ".py":
        raise BadJob(f"{path} is no Python file")
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
        raise BadJob(f"{path.name}{line_of(error, path)}: {one_line(error)}") from None
    if names := clock.changes(before):
        raise BadJob(f"{path.name} changes {names}; nothing that others use may be changed")
    return module


def _own(module: ModuleType) -> dict[str, Any]:
    """The functions and classes that a file itself defines, by name."""
    own = {name: one for name, one in vars(module).items() if not name.startswith("_")}
    return {
        name: one
        for name, one in own.items()
        if callable(one) and one.__module__ == module.__name__
    }


def kernels_of(module: ModuleType, operation: type[Operation]) -> list[str]:
    """The kernels of a file that carry out one of its operations.

    Raises:
        BadJob: there is none.
    """
    found = [
        name
        for name, one in _own(module).items()
        if inspect.isclass(one)
        and issubclass(one, Kernel)
        and isinstance(getattr(one, "operation", None), operation)
    ]
    if not found:
        file = Path(str(module.__file__)).name
        raise BadJob(f"{file}: no Kernel class has the operation {operation.__name__}")
    return found


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
        BadJob: there is none of that name.
    """
    known = operations()
    if name not in known:
        raise BadJob(f"operation={name} is unknown; there are {', '.join(sorted(known))}")
    return known[name]


def traffic_of(text: Any, operation: Operation) -> Traffic:
    """The traffic that a formula declares, as reads; the operation's compulsory one without.

    Raises:
        BadJob: it is no formula in M and N.
    """
    if text is None:
        return operation.compulsory
    writes = operation.compulsory.writes
    try:
        if not re.fullmatch(r"[MN0-9+*/() .-]{1,100}", str(text)):
            raise ValueError
        total = sympy.sympify(str(text), locals={"M": M, "N": N})
        return Traffic(reads=sympy.expand(total - writes), writes=writes)
    except (ValueError, TypeError, SyntaxError, sympy.SympifyError):
        raise BadJob(f"traffic={text} is no formula in M and N, such as 3*M*N") from None


def line_of(error: BaseException, path: Path) -> str:
    """``:12``, the last line of a file that an error came through; empty where it was none."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f":{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""
