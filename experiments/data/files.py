"""Reads and writes JSON files: limited sizes, errors with file and line, atomic writes."""

import gzip
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

LINE_BYTES = 4 * 2**20
FILE_BYTES = 8 * 2**30  # of one file, unpacked; a million rows take about 2.6e9 bytes
DEPTH = 4  # nested mappings and lists in one field; a row's environment has two levels
ENTRIES = 1000  # values in one such mapping or list
LARGEST_INTEGER = 2**63 - 1
LARGEST_EXACT = 2**53  # the largest whole number in a row; a float holds every number up to it


class RowsError(Exception):
    """A file of rows or records that cannot be read, with its file and line."""


class Written(BaseModel):
    """A JSON object on disk: it refuses unknown fields, other types and non-finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Model = TypeVar("Model", bound=BaseModel)

Name = Annotated[str, Field(max_length=300)]
Text = Annotated[str, Field(max_length=2000)]
Whole = Annotated[int, Field(ge=0, le=LARGEST_EXACT)]
Size = Annotated[int, Field(ge=0, le=2**40)]  # rows or columns; no device holds 2**40
Amount = Annotated[float, Field(ge=0, le=1e18)]
Time = Annotated[float, Field(ge=1e-9, le=1e15)]  # µs: what some clock could measure


def _bounded(value: Any, depth: int = DEPTH) -> Any:
    """Returns a JSON value; raises `ValueError` if it is too deep, too long or out of range."""
    kind = type(value)
    if kind is dict or kind is list:
        if depth == 0 or len(value) > ENTRIES:
            raise ValueError(f"nested more than {DEPTH} deep, or more than {ENTRIES} values")
        for one in [*value, *value.values()] if kind is dict else value:
            _bounded(one, depth - 1)
    elif kind is str and len(value) > 2000:
        raise ValueError("a text of more than 2000 characters")
    elif kind is int and not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        raise ValueError("a number beyond 64 bits")
    elif kind is float and not abs(value) < float("inf"):
        raise ValueError("a number that is not finite")
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(_bounded)]


def parse_json(data: str | bytes) -> Any:
    """The JSON value that a text holds; raises `ValueError` with a message of one line."""
    try:
        return from_json(data)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None


def read_json(path: Path) -> Any:
    """The JSON value of a whole file of at most `LINE_BYTES`.

    Raises:
        RowsError: the file is too long, not a plain file or not JSON; the message names it.
    """
    _check_plain(path)
    try:
        if path.stat().st_size > LINE_BYTES:
            raise ValueError(f"more than {LINE_BYTES / 2**20:g} MB")
        return parse_json(path.read_bytes())
    except ValueError as error:
        raise RowsError(f"{path}: {error}") from None


def read_lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Each line of a file: its number from 1, its bytes, and whether it lacks its newline.

    A file whose name ends in ``.gz`` is unpacked while it is read, and its checksum checked.

    Raises:
        RowsError: a line exceeds `LINE_BYTES`, or the file exceeds `FILE_BYTES`, is damaged or is
            not a plain file.
    """
    _check_plain(path)
    number = size = 0
    try:
        with path.open("rb", buffering=2**16) as plain:
            file = gzip.GzipFile(fileobj=plain) if path.suffix == ".gz" else plain
            while line := file.readline(LINE_BYTES + 1):
                number, size = number + 1, size + len(line)
                if len(line) > LINE_BYTES:
                    limit = f"{LINE_BYTES / 2**20:g} MB"
                    raise RowsError(f"{path}:{number}: a line of more than {limit}")
                if size > FILE_BYTES:
                    raise RowsError(f"{path}: more than {FILE_BYTES / 2**30:g} GB")
                yield number, line, not line.endswith(b"\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RowsError(f"{path}: damaged after line {number}: {error}") from None


def read_models(path: Path, kind: type[Model]) -> Iterator[Model]:
    """Each line of a file as a model of this kind. A last line cut short by a crash is skipped.

    Raises:
        RowsError: any other line does not fit the model; the message names file and line.
    """
    for number, line, torn in read_lines(path):
        try:
            yield validated(kind, parse_json(line))
        except ValueError as error:
            if torn:
                return
            raise RowsError(f"{path}:{number}: {error}") from None


def validated(kind: type[Model], value: Any) -> Model:
    """A JSON value as a model of this kind.

    Raises:
        ValueError: it does not fit; the message names the first wrong field, in one line.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part)[:40] for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"field {field!r}: {reason}" if field else reason) from None


def _check_plain(path: Path) -> None:
    """Refuses what is not a plain file: reading a pipe would wait for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise RowsError(f"{path}: not a plain file")


def write_file(path: Path, data: str | bytes) -> Path:
    """Writes a file atomically, makes its folder if needed, and returns ``path``.

    Raises:
        OSError: it cannot be written, or ``path`` is a symbolic link.
    """
    if path.is_symlink():
        raise OSError(f"{path} is a symbolic link; remove it, or write elsewhere")
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with scratch.open("xb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    return path
