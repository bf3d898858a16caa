"""A fingerprint of a kernel's source, so that edited code never reuses a stale row."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
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
        waiting += [i for i in _imports(name, path) if i.split(".")[0] == PACKAGE]
    return found


def _imports(module: str, path: Path) -> list[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
