"""What a row's fields are as Arrow columns."""

from __future__ import annotations

from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pyarrow as pa

from experiments.data.metrics import DERIVED
from experiments.data.rows import Row

SAMPLES = "samples_us"  # here a row's number of samples; they themselves have a file of their own
FLAG = "above_roof"
TEXT = pa.dictionary(pa.int32(), pa.string())
NUMBERS = {int: pa.int64(), float: pa.float64()}


def _kind(annotation: Any) -> Any:
    """The type that an annotation allows beside None: ``list`` of ``list[str] | None``."""
    if get_origin(annotation) is Literal:
        return type(get_args(annotation)[0])
    if get_origin(annotation) in (list, dict):
        return get_origin(annotation)
    (kind,) = [one for one in get_args(annotation) or (annotation,) if one is not NoneType]
    return kind if isinstance(kind, type) and not get_args(kind) else _kind(kind)


KINDS = {name: _kind(field.annotation) for name, field in Row.model_fields.items()}
KINDS |= dict.fromkeys(DERIVED, float) | {SAMPLES: int, FLAG: bool}
# Lists and mappings are kept as JSON texts; of these and of names there are few.
JSON = frozenset(name for name, kind in KINDS.items() if kind in (list, dict))
SCHEMA = pa.schema(
    [
        (name, pa.bool_() if kind is bool else NUMBERS.get(kind, TEXT))
        for name, kind in KINDS.items()
    ]
)
SAMPLES_SCHEMA = pa.schema([(SAMPLES, pa.float64())])
