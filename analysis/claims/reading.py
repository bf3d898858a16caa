"""Reads a claims file; a mistake in it is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from analysis.claims.expect import Strict
from analysis.claims.schema import Claim
from experiments.data.files import RowsError

SIZES = {"constrained-int", "list[constrained-int]", "Span"}  # how pydantic calls a size's forms
CLAIMS = Path(__file__).parents[1] / "claims.yaml"  # the sources'
OWN_CLAIMS = CLAIMS.with_name("own_claims.yaml")  # this project's, of its own kernels


def read_claims(path: Path = CLAIMS) -> tuple[Claim, ...]:
    """The claims of a file, in its order.

    Raises:
        RowsError: in one line, the file, the claim, the field and what would be right.
        OSError: the file cannot be read.
    """
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RowsError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(told, list) or not told:
        raise RowsError(f"{path}: a list of claims is expected, each with id, source, statement")
    claims = tuple(_claim(path, place, one) for place, one in enumerate(told, start=1))
    ids = [claim.id for claim in claims]
    for name in ids:
        if ids.count(name) > 1:
            raise RowsError(f"{path}: claim {name} is there {ids.count(name)} times")
    return claims


def _claim(path: Path, place: int, told: Any) -> Claim:
    name = told.get("id", f"number {place}") if isinstance(told, dict) else f"number {place}"
    try:
        return Claim.model_validate(told)
    except ValidationError as error:
        raise RowsError(f"{path}: claim {name}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    """The first mistake in one line: its field, and the valid choices where it has some."""
    first = error.errors(include_url=False)[0]
    where = [str(part) for part in first["loc"]]
    told = " ".join(first["msg"].removeprefix("Value error, ").split())
    if SIZES & set(where):
        where = where[: min(where.index(tag) for tag in SIZES & set(where))]
        told = "takes a size from 1, a list of them or {from, to}"
    elif first["type"] == "extra_forbidden":
        told = f"unknown; {_choices(where[:-1])}"
    return f"{_named(where)}: {told}"


def _named(where: list[str]) -> str:
    """``check 2, ratio.where.cols``: checks are counted from one."""
    if where[:1] == ["checks"] and len(where) > 1:
        inner = ".".join(where[2:])
        return f"check {int(where[1]) + 1}" + (f", {inner}" if inner else "")
    return ".".join(where) or "the claim"


def _choices(path: list[str]) -> str:
    """The fields that a place of the file may have."""
    model: Any = Claim
    for part in path:
        if part.isdigit() or part not in getattr(model, "model_fields", {}):
            continue
        found = _models(model.model_fields[part].annotation)
        model = found[0] if found else model
    aliases = [field.alias or name for name, field in model.model_fields.items()]
    return f"it may be one of {', '.join(aliases)}"


def _models(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
