"""What a job would run, without running it: so that any error shows before anything is measured."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import torch
import yaml

from experiments.child import ROOT
from experiments.data.files import EXACT
from experiments.data.jobs import ABOUT, CONF
from experiments.worker import outside
from experiments.worker.gate import TOLERANCES
from experiments.worker.outside import BadJob as BadJob
from experiments.worker.place import version_of
from kernels.device import Device
from kernels.kernel import Kernel, Operation
from kernels.traffic import evaluate, formula

PACKAGE = "kernels"  # whose code decides what a variant does
LIBRARIES = ("torch", "triton")  # whose versions are in the key, wherever they lie
STANDARD, SITES = sysconfig.get_path("stdlib"), {"site-packages", "dist-packages"}


def build_kernel(config: dict[str, Any]) -> Kernel:
    """The kernel a configuration names: ``_target_`` and its tunables.

    Raises:
        BadJob: the target is not a kernel, or a tunable is unknown or out of range.
    """
    if "file" in config:
        return outside.build(config)
    target = str(config.get("_target_"))
    module, _, name = target.rpartition(".")
    top = module.partition(".")[0]
    # found out without importing anything: no other module of this machine is to run
    if not top.isidentifier() or not ((ROOT / top).is_dir() or (ROOT / f"{top}.py").is_file()):
        raise BadJob(
            f"_target_ {target} is not in this project; it must name a class in kernels/, as in "
            "kernels.copy.copy.Copy"
        )
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BadJob(f"_target_ {target} cannot be imported: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, Kernel) and dataclasses.is_dataclass(kind)):
        raise BadJob(f"_target_ {target} is not a Kernel: it must be a dataclass derived from it")
    tunables = {key: value for key, value in config.items() if key != "_target_"}
    known = [f.name for f in dataclasses.fields(kind)]
    if unknown := [key for key in tunables if key not in known]:
        raise BadJob(f"{name} has no tunable {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    try:
        return kind(**tunables)
    except (TypeError, ValueError) as error:
        raise BadJob(f"{name}: {error}") from error


def describe(job: dict[str, Any], device: Device) -> dict[str, Any]:
    """A job's operation, declarations and points.

    Args:
        job: ``kernel`` (its configuration), ``shapes`` (pairs) and ``dtypes`` (names).
        device: Where it would run.

    Raises:
        BadJob: see `build_kernel`; also a backend without a tolerance.
    """
    kernel = build_kernel(job["kernel"])
    if kernel.backend not in TOLERANCES:
        raise BadJob(f"backend {kernel.backend!r} is unknown; use one of {', '.join(TOLERANCES)}")
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
            complaints = [
                f"{key} is declared as a number {'below zero' if number < 0 else 'beyond 2^53'}"
                for key, number in numbers.items()
                if number is not None and not 0 <= number <= EXACT
            ]
            impossible = next(iter(complaints), None)  # no row can hold it
            point = {"rows": shape[0], "cols": shape[1], "dtype": name, "impossible": impossible}
            point["unsupported"] = kernel.unsupported(tuple(shape), dtype, device)
            points.append(point | (dict.fromkeys(numbers) if impossible else numbers))
    module = type(kernel).__module__
    return {
        "target": job["kernel"]["_target_"],
        "operation": operation.name,
        "roof": operation.roof,
        "backend": backend(kernel, device),
        "params": dataclasses.asdict(kernel),  # type: ignore[call-overload]
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
    """What the file of a configuration, as ``conf/kernel/outside.yaml`` has it, stands for.

    Returns:
        ``functions``, its kernels, for an operation's class all of that operation in the file;
        ``operation``; and ``rivals``, the configurations in ``conf/kernel`` that say who made them
        and whose distributions are installed.

    Raises:
        BadJob: the file or the function cannot be measured.
    """
    name, path = str(kernel.get("function")), Path(str(kernel.get("file")))
    module = outside.load(path)
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, Operation):
        kinds = {key: one for key, one in outside.own(module).items() if isinstance(one, type)}
        operations = {key: getattr(one, "operation", None) for key, one in kinds.items()}
        functions = [key for key, one in operations.items() if isinstance(one, found)]
        if not functions:
            raise BadJob(f"{path.name}: no Kernel class has the operation {name}")
        return {"functions": functions, "operation": found.name, "rivals": []}
    built = build_kernel(kernel)
    operation, rivals = built.operation.name, []
    for file in sorted((CONF / "kernel").glob("*.yaml")):
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
        if config.get("by") and isinstance(built, outside.Function):
            one = build_kernel({k: v for k, v in config.items() if k not in ABOUT})
            if one.operation.name == operation and all(map(version_of, one.packages)):
                rivals.append(file.stem)
    return {"functions": [name], "operation": operation, "rivals": rivals}


def backend(kernel: Kernel, device: Device) -> str:
    """The row's word for who runs it: Triton on a CPU is its interpreter."""
    if kernel.backend == "triton" and device.kind == "cpu":
        return "interpreter"
    return kernel.backend


def source_hash(module: str) -> str:
    """Hash of a module's source and of all it imports, directly or not, that is not installed.

    It is part of a row's key, so that edited code never reuses a stale row. Nothing is imported.
    """
    found: dict[str, bytes] = {}
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        above = name.rpartition(".")[0]
        if name.partition(".")[0] != PACKAGE:  # its folders count where they are named themselves
            waiting.append(above)
        spec = _spec(name)
        if spec is None or not spec.origin or not spec.has_location:
            continue
        found[name] = source = Path(spec.origin).read_bytes()
        if spec.origin.endswith(".py"):
            is_package = spec.submodule_search_locations is not None
            waiting += _imports(name if is_package else above, source)
    digest = hashlib.sha256()
    for name, source in sorted(found.items()):
        digest.update(name.encode() + b"\0" + source + b"\0")
    return digest.hexdigest()[:16]


def _spec(name: str) -> ModuleSpec | None:
    """Where a module lies; None for none, or an installed one."""
    above, _, last = name.rpartition(".")
    if name in LIBRARIES:
        return None
    if not above:
        spec = importlib.util.find_spec(name)
    else:
        package = _spec(above)
        places = None if package is None else package.submodule_search_locations
        if places is None:
            return None
        try:
            spec = PathFinder.find_spec(name, places)
        except KeyError:  # a folder without __init__.py, in another that is not imported
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [f"{place}/{last}" for place in places]
    located = spec is not None and spec.has_location
    return None if located and spec is not None and _installed(Path(str(spec.origin))) else spec


def _installed(path: Path) -> bool:
    """Whether a file is of the standard library or of an installed distribution."""
    unpacked = any(path.is_relative_to(site) for site in _unpacked())
    return unpacked or path.is_relative_to(STANDARD) or not SITES.isdisjoint(path.parts)


@cache
def _unpacked() -> list[str]:
    """The folders of ``sys.path`` in which wheels lie unpacked, whatever they are called."""
    return [place for place in sys.path if any(Path(place).glob("*.dist-info"))]


@cache
def _imports(package: str, source: bytes) -> list[str]:
    """What may be modules among what a module of a package imports, in its functions too."""
    names: list[str] = []
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):  # its import fails, which only its kernel may expect
        return []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            # `from kernels.copy import copy` may name a module or something inside one
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names
