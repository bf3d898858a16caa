"""Builds kernels from configurations and describes jobs, so that errors show before measuring."""

import ast
import dataclasses
import hashlib
import importlib.util
import pkgutil
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import torch

from experiments.data.errors import UserError
from experiments.data.files import LARGEST_EXACT
from experiments.data.jobs import CONF, NOT_TUNABLES, ROOT, read_yaml
from experiments.worker import outside
from experiments.worker.gate import TOLERANCES
from experiments.worker.machine import version_of
from kernels.device import Device
from kernels.kernel import Kernel, Operation
from kernels.traffic import evaluate, formula

PACKAGE = "kernels"
UNHASHED = ("torch", "triton")  # their versions are in the key instead
STANDARD, SITES = sysconfig.get_path("stdlib"), {"site-packages", "dist-packages"}


def build_kernel(config: Mapping[str, Any]) -> Kernel:
    """The kernel that a configuration names by ``_target_`` and tunables, or by ``file``.

    Raises:
        UserError: that is not a kernel, or a tunable is unknown or out of range.
    """
    target = str(config.get("_target_"))
    if "file" in config:
        kind, tunables = outside.kernel_class(config)
    else:
        kind, tunables = _class(target), {k: v for k, v in config.items() if k != "_target_"}
    if not (isinstance(kind, type) and issubclass(kind, Kernel)):
        name = config.get("function", f"_target_ {target}")
        raise UserError(f"{name} is not a Kernel: it must be a class derived from it")
    known = [field.name for field in dataclasses.fields(kind)]
    if unknown := [key for key in tunables if key not in known]:
        has = ", ".join(known) or "none"
        raise UserError(f"{kind.__name__} has no tunable {unknown[0]!r}; it has {has}")
    try:
        return kind(**tunables)
    except (TypeError, ValueError) as error:
        raise UserError(f"{kind.__name__}: {error}") from error


def _class(target: str) -> Any:
    """The class of this project that a ``_target_`` names; raises `UserError` if it is unknown."""
    # check this before the import: no module outside this project may run
    if not (ROOT / target.partition(".")[0]).is_dir():
        raise UserError(
            f"_target_ {target} is not in this project; it must name a class in kernels/, as in "
            "kernels.roofs.library.Copy"
        )
    try:
        return pkgutil.resolve_name(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"_target_ {target} cannot be imported: {error}") from error


def describe(job: dict[str, Any], device: Device) -> dict[str, Any]:
    """Describes what a job would run: `Point.variant`, with a `Point.declared` for each point.

    Args:
        job: ``kernel`` (its configuration), ``shapes`` (pairs M, N) and ``dtypes`` (names).
        device: The device that would run it.

    Raises:
        UserError: see `build_kernel`; or the kernel's backend has no tolerance.
    """
    kernel = build_kernel(job["kernel"])
    if kernel.backend not in TOLERANCES:
        known = ", ".join(TOLERANCES)
        raise UserError(f"backend {kernel.backend!r} is unknown; use one of {known}")
    traffic, operation = kernel.traffic(), kernel.operation
    work = {"flops": operation.flops, "exponentials": operation.exponentials}
    points = []
    for name in job["dtypes"]:
        dtype: torch.dtype = getattr(torch, name)
        for shape in job["shapes"]:
            sizes = operation.sizes(tuple(shape))
            reads, writes = traffic.elements(sizes)
            numbers = {
                "model_reads": reads,
                "model_writes": writes,
                "model_bytes": traffic.bytes(sizes, dtype.itemsize),
                "compulsory_bytes": operation.compulsory.bytes(sizes, dtype.itemsize),
                **{k: None if one is None else evaluate(one, sizes) for k, one in work.items()},
            }
            status, reason = "unsupported", kernel.unsupported(tuple(shape), dtype, device)
            if wrong := [key for key, n in numbers.items() if not 0 <= (n or 0) <= LARGEST_EXACT]:
                what = "below zero" if (numbers[wrong[0]] or 0) < 0 else "beyond 2^53"
                numbers = dict.fromkeys(numbers)  # no row can hold them
                if reason is None:
                    status, reason = "incorrect", f"{wrong[0]} is declared as a number {what}"
            refusal = None if reason is None else {"status": status, "reason": reason}
            point = {"rows": shape[0], "cols": shape[1], "dtype": name, "refusal": refusal}
            points.append(point | numbers)
    module = type(kernel).__module__
    return {
        "target": job["kernel"]["_target_"],
        "operation": operation.name,
        "roof": operation.roof,
        "backend": backend(kernel, device),
        "params": dataclasses.asdict(kernel),
        "source": source_hash(module),
        "packages": {name: version_of(name) for name in kernel.packages},
        "idea": (sys.modules[module].__doc__ or "").strip(),
        "formula": str(traffic),
        "reads": formula(traffic.reads),
        "writes": formula(traffic.writes),
        "on_chip": formula(kernel.on_chip_elements()),
        **{name: None if one is None else formula(one) for name, one in work.items()},
        "points": points,
    }


def inspect(kernel: dict[str, Any]) -> dict[str, Any]:
    """The kernels in a file from outside; ``kernel`` has the keys of ``conf/kernel/outside.yaml``.

    Returns:
        ``functions``: the function that ``kernel`` names or, if that is an `Operation` class, the
        file's kernels of this operation. ``rivals``: the names in ``conf/kernel`` of kernels of the
        same operation with a ``by`` whose packages are installed; none for one of the file's own.
    """
    name, path = str(kernel.get("function")), Path(str(kernel.get("file")))
    module = outside.import_file(path)
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, Operation):
        defined = outside.defined_in(module).items()
        operations = {key: getattr(one, "operation", None) for key, one in defined}
        functions = [key for key, one in operations.items() if isinstance(one, found)]
        if not functions:
            raise UserError(f"{path.name}: no Kernel class has the operation {name}")
        return {"functions": functions, "rivals": []}
    built = build_kernel(kernel)
    rivals = []
    for rival, config in read_yaml(CONF / "kernel").items():
        if config.get("by"):
            one = build_kernel({k: v for k, v in config.items() if k not in NOT_TUNABLES})
            if one.operation is built.operation and all(map(version_of, one.packages)):
                rivals.append(rival)
    return {"functions": [name], "rivals": rivals}


def backend(kernel: Kernel, device: Device) -> str:
    """The backend as in rows: Triton on a CPU is ``interpreter``."""
    if kernel.backend == "triton" and device.kind == "cpu":
        return "interpreter"
    return kernel.backend


def source_hash(module: str) -> str:
    """A hash of the sources of a module and of all that it imports, directly or not.

    Installed packages are left out. The hash is part of a row's key: after an edit a point is
    measured again. Nothing is imported.
    """
    found: dict[str, bytes | None] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if not name or name in found:
            continue
        path, above = _file(name), name.rpartition(".")[0]
        found[name] = source = None if path is None else path.read_bytes()
        if name.partition(".")[0] != PACKAGE:  # whose __init__ files count only if imported by name
            waiting.append(above)
        if path is not None and source is not None and path.suffix == ".py":
            waiting += _imports(name if path.stem == "__init__" else above, source)
    digest = hashlib.sha256()
    for name, source in sorted(found.items()):
        if source is not None:
            digest.update(name.encode() + b"\0" + source + b"\0")
    return digest.hexdigest()[:16]


def _file(name: str) -> Path | None:
    """A module's file; None if it is installed, or has none (such as a folder without __init__)."""
    top, *below = name.split(".")
    spec = None if top in UNHASHED else importlib.util.find_spec(top)
    for part in below:  # part by part, since find_spec of a dotted name would import its parents
        places = None if spec is None else spec.submodule_search_locations
        spec = PathFinder.find_spec(part, [*(places or ())])
    path = Path(str(spec.origin)) if spec is not None and spec.has_location else None
    return None if path is None or _installed(path) else path


def _installed(path: Path) -> bool:
    """Whether a file belongs to the standard library or to an installed distribution."""
    unpacked = any(path.is_relative_to(site) for site in _unpacked())
    return unpacked or path.is_relative_to(STANDARD) or not SITES.isdisjoint(path.parts)


@cache
def _unpacked() -> list[str]:
    """The folders of ``sys.path`` that contain installed distributions, whatever their names."""
    return [place for place in sys.path if any(Path(place).glob("*.dist-info"))]


@cache
def _imports(package: str, source: bytes) -> list[str]:
    """Names of modules that a source may import, anywhere in it; ``package`` is its package."""
    names: list[str] = []
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):  # importing it fails, too, and the importer may handle that
        return []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            # `from kernels.roofs import library` may name a module or something inside one
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names
