"""A fingerprint of a kernel's source, so that edited code never reuses a stale row."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from functools import cache
from pathlib import Path

PACKAGE = "kernels"


def source_hash(module: str) -> str:
    """Hash of a module's source and of all it imports, directly or not, inside ``kernels/``."""
    digest = hashlib.sha256()
    for name, path in sorted(_closure(module).items()):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _closure(module: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if name in found or path is None:
            continue
        found[name] = path
        source = path.read_text(encoding="utf-8")
        names = _imports(name, path.name == "__init__.py", source)
        waiting += [i for i in names if i.split(".")[0] == PACKAGE]
    return found


@cache
def _imports(module: str, is_package: bool, source: str) -> list[str]:
    package = module if is_package else module.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            # `from kernels.softmax import online` may name a module or something inside one
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names


def _file(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
