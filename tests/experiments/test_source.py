"""A variant's fingerprint covers all the code that it runs, and no other variant's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

VARIANTS = {
    "fused": "kernels.softmax.fused",
    "cluster": "kernels.softmax.cluster",
    "auto": "kernels.softmax.auto",
    "backward": "kernels.softmax_backward.backward",
}
ASK = f"from source import source_hash\nfor m in {[*VARIANTS.values()]}: print(source_hash(m))"


def fingerprints(folder: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(zip(VARIANTS, done.stdout.split(), strict=True))


def copied(folder: Path) -> Path:
    """A folder with the kernels and with what fingerprints them."""
    shutil.copytree(ROOT / "kernels", folder / "kernels", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "experiments" / "worker" / "source.py", folder)
    return folder


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The fingerprints of what nobody edited."""
    return fingerprints(copied(tmp_path_factory.mktemp("unedited")))


@pytest.mark.parametrize(
    ("edited", "changed"),
    [
        ("softmax/fused.py", {"fused"}),
        ("softmax/tiles.py", set(VARIANTS)),
        ("softmax/cluster.py", {"cluster", "auto"}),
        ("softmax/cooperative.py", {"auto"}),
        ("softmax/peers/liger.py", set()),
        ("functions.py", set()),
        ("lines.py", {"backward"}),
    ],
)
def test_an_edit_changes_the_fingerprints_of_what_runs_it(
    tmp_path: Path, before: dict[str, str], edited: str, changed: set[str]
) -> None:
    with (copied(tmp_path) / "kernels" / edited).open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    after = fingerprints(tmp_path)
    assert {name for name in VARIANTS if before[name] != after[name]} == changed
