"""One sweep at a time in a folder."""

from __future__ import annotations

import errno
import fcntl
import sys
from pathlib import Path
from typing import IO

from experiments.errors import UserError


def hold(out: Path) -> IO[str]:
    """Takes a sweep's folder for as long as the file that it gives stays open.

    Raises:
        UserError: the folder cannot be written, or another sweep holds it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise UserError(f"out={out} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise UserError(
            f"out={out} is being written by another sweep; wait or choose another"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        print(f"warning: no locks below {out}: let no other sweep write there", file=sys.stderr)
    return lock
