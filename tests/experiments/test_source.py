"""A variant's fingerprint covers all the code that it runs, and no other variant's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from experiments.child import ROOT
from experiments.worker.describe import source_hash

VARIANTS = {
    "fused": "kernels.softmax.fused",
    "cluster": "kernels.softmax.cluster",
    "auto": "kernels.softmax.auto",
    "backward": "kernels.softmax_backward.backward",
}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A checkout's kernels."""
    ignored = shutil.ignore_patterns("*.pyc")
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=ignored)
    return tmp_path


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
    copied: Path, edited: str, changed: set[str]
) -> None:
    before = {name: source_hash(module, copied) for name, module in VARIANTS.items()}
    with (copied / "kernels" / edited).open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    after = {name: source_hash(module, copied) for name, module in VARIANTS.items()}
    assert {name for name in VARIANTS if before[name] != after[name]} == changed
