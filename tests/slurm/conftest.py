"""One Slurm for all tests of this folder."""

from __future__ import annotations

import getpass
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.experiments.conftest import pool, sweep_here, worker
from tests.slurm.cluster import Cluster, lacking

__all__ = ["pool", "sweep_here", "worker"]  # fixtures


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Slurm of one node, this machine; skipped where a program is lacking."""
    if lacking():
        pytest.skip(f"no {', '.join(lacking())} here (Debian: munge slurm-wlm)")
    # a socket's path has room for a hundred characters, and pytest's own folders take them
    folder = Path(tempfile.mkdtemp(prefix=f"slurm-{getpass.getuser()}-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)
