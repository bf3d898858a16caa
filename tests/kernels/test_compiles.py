"""The interpreter is laxer than the compiler: what each kernel becomes for an H200, without one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

Case = tuple[str, str, dict[str, Any]]  # name, PTX, facts


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """All cases of `compile_for_h200`."""
    pytest.importorskip("triton")
    out = tmp_path_factory.mktemp("compiled")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compile_for_h200", str(out)],
        env=environment | {"TRITON_CACHE_DIR": str(out / "cache")},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads((out / "cases.json").read_text(encoding="utf-8"))
    return [
        (name, (out / f"{name}.ptx").read_text(encoding="utf-8"), fact)
        for name, fact in facts.items()
    ]


def named(compiled: list[Case], start: str) -> list[Case]:
    found = [case for case in compiled if case[0].startswith(start)]
    assert found
    return found


def test_tiles_are_stored_in_whole_vectors(compiled: list[Case]) -> None:
    for name, ptx, _ in named(compiled, "tiled"):
        assert "st.global" in ptx, name
        assert not re.search(r"st\.global\.(L1::\w+\.)?b", ptx), f"{name}: cut stores"


def test_a_dependent_waits_before_it_touches_memory(compiled: list[Case]) -> None:
    for start in ("tiled_copy", "multirow", "cluster_fp", "cluster_bf"):
        for name, ptx, _ in named(compiled, start):
            assert ptx.index("griddepcontrol.wait") < ptx.index("ld.global"), name


def test_persistent_programs_have_three_rows_under_way(compiled: list[Case]) -> None:
    for name, ptx, facts in named(compiled, "tiled_fused_fp"):
        assert "cp.async" in ptx, f"{name}: the loads of rows are not pipelined"
        assert 3 * facts["row"] <= facts["shared"] <= 3 * facts["row"] + 1024, name


def test_the_tunables_of_online_are_seen_in_its_code(compiled: list[Case]) -> None:
    for name, ptx, _ in named(compiled, "tiled_online"):
        plain = "none" in name
        assert ("cp.async" in ptx) == ("online_first" in name), name  # of several stages
        assert ("%nctaid" in ptx) != plain, f"{name}: a loop over rows where each has a program"
        assert ("evict_first" in ptx) != plain, name
        assert ("evict_last" in ptx) == ("last_first" in name), name


def test_narrow_rows_stay_in_their_warps_and_move_in_whole_vectors(compiled: list[Case]) -> None:
    for name, ptx, facts in named(compiled, "multirow"):
        assert facts["shared"] == 0, f"{name}: a row leaves its warp"
        assert "bar.sync" not in ptx, f"{name}: warps wait for each other"
        loads = ptx.count("ld.global")
        assert loads == ptx.count(f"ld.global.{facts['whole']}") > 0, f"{name}: cut loads"
        assert ptx.count("st.global") == ptx.count(f"st.global.{facts['whole']}") == loads, name
        first_wait = ptx.find("shfl.sync") if facts["reduces"] else len(ptx)
        assert ptx.rindex("ld.global") < first_wait, f"{name}: a load waits"


def test_reductions_of_a_cluster_cross_its_shared_memory(compiled: list[Case]) -> None:
    for name, ptx, _ in compiled:
        if name == "cluster_reduce":  # where Triton can
            assert "mapa" in ptx
            assert "ld.global.v4.b32" in ptx


def test_a_cluster_meets_once_and_fences_nothing(compiled: list[Case]) -> None:
    for name, ptx, facts in named(compiled, "cluster_fp") + named(compiled, "cluster_bf"):
        if facts["whole"]:
            load = ".L1::evict_last.L2::cache_hint" if facts["hint"] else ".cg"
            assert ptx.count(f"ld.global{load}.v4.b32") == facts["held"], name
            assert ptx.count("cp.async.cg.shared.global") == facts["waiting"], name
            assert f"st.global{load if facts['hint'] else ''}.v4.b32" in ptx, name
            assert "st.global.b" not in ptx, name
        assert ("st.async" in ptx) == (facts["programs"] > 1), name
        slices = facts["programs"] * facts["warps"]
        assert ptx.count("redux.sync.max") == (slices > 1), name
        assert "%clusterid" not in ptx, f"{name}: its row's number would be divided for"
        # a releasing arrival would make all wait for a fence of the whole GPU before they load
        relaxed = "barrier.cluster.arrive.relaxed.aligned" in ptx
        assert relaxed == (facts["programs"] > 1), name
        assert "fence.acq_rel" not in ptx, f"{name}: a fence that all loads wait for"
        assert "membar" not in ptx, name
        assert facts["shared"] <= 192 << 10, name


def test_slices_of_a_row_are_exchanged_relaxed_and_spill_nothing(
    compiled: list[Case], tmp_path: Path
) -> None:
    knobs = pytest.importorskip("triton").knobs
    for name, ptx, facts in named(compiled, "cooperative"):
        assert facts["cooperative"], name
        assert "ld.global.v4.b32" in ptx, name
        assert "st.global.v4.b32" in ptx, name
        assert not re.search(r"(ld|st)[.]global[.]b(16|32)", ptx), name
        assert "ld.relaxed.gpu.global.b64" in ptx, name
        assert "atom.global.gpu.relaxed.exch.b64" in ptx, name
        assert "fma" not in ptx, f"{name}: threads would sum unlike each other"
        (tmp_path / "x.ptx").write_text(ptx, encoding="utf-8")
        command = [knobs.nvidia.ptxas.path, "-v", "--gpu-name=sm_90a", "x.ptx", "-o", "x"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, name + done.stderr
        used = re.search("Used ([0-9]+) registers", done.stderr)
        assert used is not None
        assert int(used[1]) <= facts["registers"], name
