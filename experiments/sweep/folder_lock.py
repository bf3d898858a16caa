"""One sweep at a time in a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from pathlib import Path

from experiments.errors import UserError

# NFS locks files and no folders (EBADF); some shared file systems lock nothing.
NO_LOCK = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class FolderLock:
    """Holds a sweep's folder until it is closed or its process ends, however it ends.

    The folder itself is locked, so that no file that can be removed from it decides. Where folders
    take no lock, ``.lock`` in the folder is locked instead; `check` notices its removal.

    Raises:
        UserError: the folder cannot be written, or another sweep holds it.
    """

    def __init__(self, out: Path) -> None:
        self._descriptor = -1
        try:
            out.mkdir(parents=True, exist_ok=True)
            if self._take(out, os.O_RDONLY | os.O_DIRECTORY):
                return
            if self._take(out / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW):
                return
        except BlockingIOError:
            raise UserError(
                f"out={out} is being written by another sweep; wait or choose another"
            ) from None
        except OSError as error:
            raise UserError(f"out={out} cannot be written: {error.strerror}") from None
        print(f"warning: no locks below {out}: let no other sweep write there", file=sys.stderr)

    def _take(self, path: Path, flags: int) -> bool:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in NO_LOCK:
                return False
            raise
        self._path, self._descriptor = path, descriptor
        return True

    def check(self) -> None:
        """Makes sure that the lock still keeps others out.

        Raises:
            UserError: what was locked has been removed or replaced since.
        """
        if self._descriptor < 0:
            return
        try:
            if os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
                return
        except FileNotFoundError:
            pass
        raise UserError(
            f"{self._path} was removed or replaced while this sweep was running, and another sweep "
            "may write there now; run the same command again"
        )

    def close(self) -> None:
        """Lets another sweep have the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
