"""JSON as it is read from disk and written to it: bounded, refused by file and line, atomic."""

from __future__ import annotations

import contextlib
import gzip
import json
import marshal
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

LINE_BYTES = 4 * 2**20
FILE_BYTES = 8 * 2**30  # of one file, unpacked: ten times a sweep of a million rows
DEPTH = 4  # of mappings and lists inside one field: a row's environment takes two
ENTRIES = 1000  # keys and values of one such field
MOST = 2**63 - 1
EXACT = 2**53  # the largest whole number of a row: as a float it is the same


class RowsError(Exception):
    """A file of rows or records that cannot be read, with its file and line."""


Model = TypeVar("Model", bound=BaseModel)

Name = Annotated[str, StringConstraints(max_length=300)]
Text = Annotated[str, StringConstraints(max_length=2000)]
Whole = Annotated[int, Field(ge=0, le=EXACT)]
Size = Annotated[int, Field(ge=0, le=2**40)]  # rows or columns: beyond any device
Amount = Annotated[float, Field(ge=0, le=1e18)]
Time = Annotated[float, Field(ge=1e-9, le=1e15)]  # µs: what some clock could measure


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    """A mapping of JSON values that no reader has to fear: shallow, short, 64 bit, finite.

    A million rows share few of them, so each is checked and held once.
    """
    try:
        return _checked(marshal.dumps(value, 2))  # of this version, the same for equal values
    except ValueError as error:
        raise ValueError(str(error).replace("unmarshallable object", "not JSON")) from None


@lru_cache(maxsize=2**10)
def _checked(data: bytes) -> dict[str, Any]:
    value: dict[str, Any] = marshal.loads(data)
    waiting: list[tuple[Any, int]] = [(value, 0)]
    seen = 0
    while waiting:
        one, depth = waiting.pop()
        seen += 1
        if seen > ENTRIES:
            raise ValueError(f"more than {ENTRIES} values")
        if isinstance(one, dict | list):
            if depth == DEPTH:
                raise ValueError(f"nested more than {DEPTH} deep")
            inside = [*one, *one.values()] if isinstance(one, dict) else one
            waiting += [(each, depth + 1) for each in inside]
        elif isinstance(one, str) and len(one) > 2000:
            raise ValueError("a text of more than 2000 characters")
        elif isinstance(one, int) and not -MOST <= one <= MOST:
            raise ValueError("a number beyond 64 bits")
        elif isinstance(one, float) and not abs(one) < float("inf"):
            raise ValueError("a number that is not finite")
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(_bounded)]


def parse_json(data: str | bytes) -> Any:
    """A JSON value without duplicate keys, lone surrogates or numbers beyond 64 bits.

    Raises:
        ValueError: in one line, what is wrong with it.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        value = json.loads(text, parse_int=_whole, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text: {error.reason}") from None
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("not JSON: a lone surrogate, which is not a character") from None
    return value


def read_json(path: Path, limit: int = LINE_BYTES) -> Any:
    """The JSON value of a whole file.

    Raises:
        RowsError: it is too long, no plain file or no JSON; it names the file.
    """
    check_plain(path)
    with path.open("rb") as file:
        data = file.read(limit + 1)
    try:
        if len(data) > limit:
            raise ValueError(f"more than {limit / 2**20:g} MB")
        return parse_json(data)
    except ValueError as error:
        raise RowsError(f"{path}: {error}") from None


def read_lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """The lines of a file: number from 1, bytes, and whether the line lacks its end.

    A file whose name ends in ``.gz`` is unpacked on the way; its checksum is compared at its end.

    Raises:
        RowsError: a line is longer than `LINE_BYTES`, the file longer than `FILE_BYTES`, damaged,
            or no plain file.
    """
    check_plain(path)
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


def files_below(folder: Path, *names: str) -> dict[str, list[Path]]:
    """By name, the files so called below a folder, in order. Links to folders are not followed."""
    found: dict[str, list[Path]] = {name: [] for name in names}
    waiting = [str(folder)]
    while waiting:  # a third of the time of os.walk, where there are many folders
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.name in found and not entry.is_dir():
                    found[entry.name].append(Path(entry.path))
    return {name: sorted(paths) for name, paths in found.items()}


def validated(kind: type[Model], value: Any) -> Model:
    """A JSON value as a model.

    Raises:
        ValueError: in one line, the first field that is wrong.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part)[:40] for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"field {field!r}: {reason}" if field else reason) from None


def check_plain(path: Path) -> None:
    """Refuses what is not a plain file: reading a pipe would wait for ever.

    Raises:
        RowsError: it names the file.
        OSError: there is none.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise RowsError(f"{path}: not a plain file")


def write_file(path: Path, data: str | bytes) -> Path:
    """Writes a file as a whole or not at all; its folder is made. A link is never followed.

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


def _whole(digits: str) -> int:
    if len(digits) <= 20 and -MOST <= int(digits) <= MOST:
        return int(digits)
    raise ValueError(f"{digits[:20]}… is beyond 64 bits")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:40]!r} occurs twice")
    return found
