"""Kernels from outside: a function or a `Kernel` class in a Python file anywhere.

The file is loaded once, in a worker that measures nothing else, so its changes to PyTorch or to the
clock cannot affect other kernels. It is refused if its import makes such a change.
"""

import dataclasses
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import sympy

from experiments.data.errors import UserError, anonymous
from experiments.data.jobs import ROOT
from experiments.worker import clock
from kernels.kernel import Kernel, Operation
from kernels.traffic import M, N, Traffic

BACKEND = "outside"  # the gate has tolerances for it


@dataclasses.dataclass(frozen=True)
class Function(Kernel):
    """A function of a file from outside, as a kernel of one of our operations."""

    file: str = ""  # its name, without its folder
    function: str = ""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # arguments of every call
    backend = BACKEND
    on_chip = sympy.Integer(0)  # unknown
    called: ClassVar[Callable[..., Any]]

    def __call__(self, *inputs: Any, **_: Any) -> Any:
        """The function's answer."""
        return type(self).called(*inputs, **self.options)


def kernel_class(config: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The kernel class that a file defines, or one made for its function; and its tunables.

    Args:
        config: As ``conf/kernel/outside.yaml``: ``file``, ``function``, ``options``, and for a
            function ``operation`` (a name in this project) and ``traffic``, a formula in elements
            such as ``3*M*N``, or None for the compulsory traffic.

    Raises:
        UserError: there is no such file, function or operation, or the file cannot be imported.
    """
    path, name = Path(str(config.get("file"))), str(config.get("function"))
    options, module = dict(config.get("options") or {}), import_file(path)
    one = getattr(module, name, None)
    if one is None:
        known = ", ".join(sorted(defined_in(module))) or "none"
        raise UserError(f"{path.name} has no {name!r}; its functions are {known}")
    if isinstance(one, type) and issubclass(one, Kernel):
        if config.get("traffic") is not None:
            raise UserError(f"{path.name}: {name} is a Kernel, which declares its own traffic")
        return one, options
    if not callable(one):
        raise UserError(f"{path.name}: {name} is a {type(one).__name__}, which cannot be called")
    operation = operation_named(str(config.get("operation")))
    given = [array.name for array in operation.inputs]
    try:
        inspect.signature(one).bind(*given, **options)
    except TypeError as error:
        by = f"by operation={operation.name} with ({', '.join(given)})"
        raise UserError(f"{path.name}: {name} is called {by}: {error}") from None
    except ValueError:  # a compiled function may have no signature
        pass
    fields = {
        "operation": operation,
        "moves": _traffic_of(config.get("traffic"), operation),
        "called": staticmethod(one),
        "__module__": module.__name__,
    }
    kind = type(name, (Function,), fields)
    return kind, {"file": path.name, "function": name, "options": options}


@cache
def import_file(path: Path) -> ModuleType:
    """Imports a file as a module, once; its folder is added to ``sys.path`` for its own imports.

    Raises:
        UserError: it is no Python file, its import fails, or changes what others use.
    """
    spec = importlib.util.spec_from_file_location(f"outside_{path.stem}", path.resolve())
    if not path.is_file() or path.suffix != ".py" or spec is None or spec.loader is None:
        raise UserError(f"{path} is no Python file" if path.exists() else f"{path}: no such file")
    before = clock.state()
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[spec.name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise UserError(f"{path.name}{line_of(error, path)}: {anonymous(error)}") from None
    if names := clock.changes(before):
        raise UserError(f"{path.name} changes {names}; nothing that others use may be changed")
    return module


def defined_in(module: ModuleType) -> dict[str, Any]:
    """The public functions and classes that a module defines itself, by name."""
    return {
        name: one
        for name, one in vars(module).items()
        if name[0] != "_" and callable(one) and getattr(one, "__module__", "") == module.__name__
    }


@cache
def operations() -> dict[str, Operation]:
    """The operations in ``kernels/``, by name."""
    paths = sorted((ROOT / "kernels").glob("*/operation.py"))
    modules = [importlib.import_module(f"kernels.{path.parent.name}.operation") for path in paths]
    found = [one for module in modules for one in vars(module).values()]
    return {one.name: one for one in found if isinstance(one, Operation)}


def operation_named(name: str) -> Operation:
    """The operation of this project with that name; raises `UserError` if it is unknown."""
    known = operations()
    if name not in known:
        raise UserError(
            f"operation={name} is unknown; there are {', '.join(sorted(known))}; one of your own "
            "is a class of the file, FILE.py::MyOperation, beside its Kernel classes"
        )
    return known[name]


def _traffic_of(text: Any, operation: Operation) -> Traffic:
    """The traffic of a formula: the compulsory writes, the rest reads. None: the compulsory one."""
    if text is None:
        return operation.compulsory
    writes = operation.compulsory.writes
    try:
        if not re.fullmatch(r"(?:[MN+/() -]|(?<!\*)\*|\d+(?:\.\d+)?){1,100}", str(text)):
            raise ValueError
        total = sympy.sympify(str(text), locals={"M": M, "N": N})
        if not sympy.expand(total - writes).subs({M: 64, N: 64}) >= 0:
            raise UserError(f"traffic={text} is less than what must be written, {writes}")
        return Traffic(reads=sympy.expand(total - writes), writes=writes)
    except (ValueError, TypeError, SyntaxError, sympy.SympifyError):
        raise UserError(f"traffic={text} is no formula in M and N, such as 3*M*N") from None


def line_of(error: BaseException, path: Path) -> str:
    """``:12``, the last line of this file in an error's traceback; "" if the file is not in it."""
    file = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename == file:
        return f":{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f":{lines[-1]}" if lines else ""
