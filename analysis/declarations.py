"""What each variant declared when its rows were made: ``variants.json`` beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from analysis.format import shown
from experiments.data.rows import RowsError


class Declaration(BaseModel):
    """A variant's own words and formulas, in elements; see `kernels.kernel.Kernel`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kernel: str
    target: str
    operation: str
    backend: str
    params: dict[str, Any]
    source: str
    idea: str
    formula: str
    reads: str
    writes: str
    latex: str
    on_chip: str


def load_declarations(rows: Path) -> dict[str, Declaration]:
    """Declarations by label, of all ``variants.json`` below ``rows``; the last of a label counts.

    Raises:
        RowsError: a file holds something else; it names the file.
    """
    folder = rows.parent if rows.is_file() else rows
    found: dict[str, Declaration] = {}
    for path in sorted(folder.rglob("variants.json")):
        if "wandb" in path.relative_to(folder).parts:
            continue
        try:
            read = shown(json.loads(path.read_text(encoding="utf-8")))
            found |= {label: Declaration.model_validate(told) for label, told in read.items()}
        except (ValidationError, ValueError, AttributeError, RecursionError) as error:
            told = str(error).splitlines()[0]
            raise RowsError(f"{path}: no declarations of variants: {told}") from None
    return found
