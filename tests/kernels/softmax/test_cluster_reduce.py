from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kernels.device import Device
from kernels.softmax import cluster_reduce
from kernels.softmax.cluster_reduce import ClusterReduce

F32 = torch.float32


def with_triton(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(cluster_reduce, "triton_version", lambda: version)


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "2.9.0", "unknown"])
def test_an_older_triton_is_named_with_what_is_needed(
    h200: Device, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    with_triton(monkeypatch, version)
    said = ClusterReduce().unsupported((4, 8), F32, h200)
    assert said == (f"needs Triton 3.8 or newer, whose reductions cross a cluster, not {version}")


@pytest.mark.parametrize("version", ["3.8.0", "3.9.0+git1234", "3.10.0", "4.0.0"])
def test_a_newer_triton_runs_it(
    h200: Device, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    with_triton(monkeypatch, version)
    assert ClusterReduce().unsupported((4096, 262144), F32, h200) is None


def test_a_card_without_clusters_is_refused(h200: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    with_triton(monkeypatch, "3.9.0")
    said = ClusterReduce().unsupported((4, 8), F32, replace(h200, capability=(8, 6))) or ""
    assert said.endswith("compute capability 9.0 or newer, not 8.6")


def test_a_row_that_no_cluster_holds_is_refused(
    h200: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_triton(monkeypatch, "3.9.0")
    said = ClusterReduce(num_ctas=2).unsupported((4, 262144), F32, h200) or ""
    assert "131072 registers of each CTA of a cluster of 2" in said
    assert "1048576" in (ClusterReduce().unsupported((4, (1 << 20) + 1), F32, h200) or "")


@pytest.mark.parametrize(
    ("block", "cluster"),
    [(256, (1, 4)), (8192, (1, 8)), (16384, (2, 8)), (131072, (16, 8)), (262144, (16, 16))],
)
def test_clusters_grow_with_the_row(block: int, cluster: tuple[int, int]) -> None:
    assert ClusterReduce()._cluster(block) == cluster
