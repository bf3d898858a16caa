"""Grids, jobs of a sweep, and the roofs that they get beside them."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import yaml

from experiments.data.files import validated
from experiments.data.jobs import MOST, GridConfig
from experiments.sweep.jobs import with_roofs
from experiments.worker.describe import build_kernel
from tests.conf import KERNELS
from tests.conf import kernel as kernel_config
from tests.conftest import CONF, Compose


def test_a_shard_gets_the_roofs_that_it_lacks(compose_job: Compose) -> None:
    def added(*kernels: str) -> list[str]:
        jobs = [compose_job([f"kernel={name}", "grid=wide"]) for name in kernels]
        found = [*with_roofs(jobs)][len(jobs) :]
        assert all(one.grid == "wide" for one in found)
        return [one.kernel for one in found]

    assert added("online") == ["copy"]
    assert added("online", "copy_triton") == []
    assert added("backward", "copy") == ["add"]
    assert added("backward", "online") == ["add", "copy"]
    assert added("add") == []


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernels_file_names_the_roof_of_its_operation(kernel: str) -> None:
    config = yaml.safe_load((CONF / "kernel" / f"{kernel}.yaml").read_text(encoding="utf-8"))
    assert build_kernel(kernel_config(kernel)).operation.roof == config.get("roof", "copy")


def test_what_a_file_says_about_a_kernel_is_no_tunable(compose_job: Compose) -> None:
    found = compose_job(["kernel=quack", "grid=smoke"])
    assert found.config["kernel"] == {"_target_": "kernels.softmax.peers.Quack"}
    assert compose_job(["kernel=backward", "grid=smoke"]).roof == "add"


def expand(**grid: Any) -> list[tuple[int, int]]:
    return validated(GridConfig, {"source": "s", "dtypes": ["float32"], **grid}).expand()


def test_a_grid_is_its_product_and_its_pairs_each_once_in_order() -> None:
    pairs = expand(rows=[3, 1], cols=8, shapes=[[1, 8], [2, 2]])
    assert pairs == [(3, 8), (1, 8), (2, 2)]
    ranged = expand(rows=7, cols={"first": 1, "last": 9, "step": 4})
    assert ranged == [(7, 1), (7, 5), (7, 9)]
    assert expand(elements=[100, 4], cols=[8, 33]) == [(12, 8), (3, 33), (1, 8), (1, 33)]


def test_a_seed_draws_the_same_widths_each_time_half_of_them_odd_at_every_size() -> None:
    grid = {"elements": [2**25, 2**27], "drawn": 12}
    shapes = expand(**grid, seed=7)
    assert shapes == expand(**grid, seed=7)
    assert set(shapes).isdisjoint(expand(**grid, seed=8))
    assert all(256 <= n <= 262144 for _, n in shapes)
    assert [n % 2 for _, n in shapes] == [0, 1] * 6
    assert [round(math.log2(m * n)) for m, n in shapes] == [25, 25, 27, 27] * 3


ENDLESS = {"first": 1, "last": 10**12, "step": 1}


@pytest.mark.parametrize(
    ("grid", "named"),
    [
        ({}, "the grid is empty"),
        ({"rows": 0, "cols": 1}, "'rows.0'"),
        ({"rows": 1, "cols": {"first": 1, "last": 9, "step": 0}}, "first, last and step"),
        ({"shapes": [[1]]}, "'shapes.0'"),
        ({"rows": 1, "cols": 1, "elements": [9]}, "rows and elements"),
        ({"drawn": 2, "elements": [9]}, "drawn needs seed"),
        ({"rows": ENDLESS, "cols": 1}, f"at most {MOST}"),
    ],
)
def test_wrong_shapes_are_refused_in_one_line(grid: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)) as refused:
        expand(**grid)
    assert "\n" not in str(refused.value)
