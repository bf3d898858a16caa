"""Packed recordings: an archive of rows is read as the folder that it holds."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

FOLDER = ".unpacked"  # beside a folder's own rows; git ignores it
COPIES = Path("outputs") / ".rows"  # where other archives are unpacked
ROWS_ARCHIVE = "rows.tar.gz"  # read where it lies in a folder; other archives when they are named
LARGEST_BYTES = 16 * 2**30  # of all files in an archive


def is_archive(path: Path) -> bool:
    """Whether a path names an archive of rows."""
    return path.name.endswith(".tar.gz") and path.is_file()


def packed_below(folder: Path) -> list[Path]:
    """The archives below a folder that `recording` does not read where they lie."""
    found = folder.rglob("*.tar.gz") if folder.is_dir() else ()
    hidden = (FOLDER, COPIES.name, "wandb")
    return sorted(
        path
        for path in found
        if path.name != ROWS_ARCHIVE
        and path.is_file()
        and not {*hidden} & {*path.relative_to(folder).parts}
    )


def unpacked(archive: Path) -> Path:
    """The folder with an archive's files.

    It is unpacked once for each of its states, and earlier states are removed: a ``rows.tar.gz``
    into ``.unpacked/`` beside it, where it counts as that folder's rows, another archive into
    ``outputs/.rows/``. Where that cannot be written, a temporary folder of this process is taken.

    Raises:
        ValueError: the archive is damaged, larger than `LARGEST_BYTES`, or holds anything but
            files and folders below its own root; nothing of it was unpacked.
    """
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    home = archive.parent / FOLDER if archive.name == ROWS_ARCHIVE else COPIES
    name = archive.name.removesuffix(".tar.gz")
    if home == COPIES:  # two folders may each have a cards.tar.gz
        name = f"{archive.resolve().parent.name}-{name}"
    done = home / f"{name}-{digest}"
    if home.is_symlink() or done.is_symlink():
        raise ValueError(f"{home} is a link; remove it")
    if done.is_dir():
        return done
    scratch = _beside(home)
    if scratch is None:
        done = scratch = Path(tempfile.mkdtemp(prefix="rows-"))
        atexit.register(shutil.rmtree, done, ignore_errors=True)
    try:
        _extract(archive, scratch)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    if scratch != done:
        for old in home.glob(f"{name}-*/"):
            if old != scratch:
                shutil.rmtree(old, ignore_errors=True)
        os.replace(scratch, done)
    return done


def recording(folder: Path) -> Path:
    """The folder of a recorded sweep: what its ``rows.tar.gz`` holds, else the folder itself.

    Raises:
        ValueError: see `unpacked`.
    """
    archive = folder / ROWS_ARCHIVE
    return unpacked(archive) if archive.is_file() else folder


def _beside(home: Path) -> Path | None:
    with contextlib.suppress(OSError):
        home.mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(suffix=".tmp", dir=home))
    return None


def _extract(archive: Path, into: Path) -> None:
    try:
        with tarfile.open(archive) as packed:
            members = list(_plain(packed))
            # Python before 3.11.4 knows no filters; `_plain` has refused what they refuse
            known = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            packed.extractall(into, members, **known)  # type: ignore[arg-type]
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{archive}: no archive of rows: {error}") from None


def _plain(packed: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    size = 0
    for member in packed:
        path = PurePosixPath(member.name)
        if not (member.isfile() or member.isdir()) or path.is_absolute() or ".." in path.parts:
            raise tarfile.TarError(f"{member.name!r} is not a file or folder below it")
        size += member.size
        if size > LARGEST_BYTES:
            raise tarfile.TarError(f"more than {LARGEST_BYTES:,} bytes")
        yield member
