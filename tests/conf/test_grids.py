"""Each grid is the set of shapes that its source used."""

from __future__ import annotations

import pytest

from tests.conf import expand, options
from tests.conftest import Composed

SHAPES = {
    "tutorial": [(4096, n) for n in range(256, 12673, 128)],
    "wide": [(4096, 256 * 4**k) for k in range(6)],
    "point": [(8192, 32000)],
    "few_wide": [(m, 2**k) for m in (1, 8, 64) for k in range(15, 21)],
    "quack": [(32768, 256 * 2**k) for k in range(9)] + [(16384, 131072), (8192, 262144)],
}


@pytest.mark.parametrize("name", options("grid"))
def test_every_grid_says_its_source_its_shapes_and_its_dtypes(
    name: str, composed: Composed
) -> None:
    grid = composed(f"grid={name}").grid
    assert grid.source
    assert set(grid.dtypes) <= {"float32", "float16", "bfloat16"}
    assert expand(grid)
    if name in SHAPES:
        assert expand(grid) == SHAPES[name]


def test_a_sweep_of_another_seed_holds_out_other_widths(composed: Composed) -> None:
    grids = [composed("grid=held_out", *seed).grid for seed in ([], ["seed=7"], ["grid.seed=7"])]
    shapes = [expand(grid) for grid in grids]
    assert [grid.seed for grid in grids] == [0, 7, 7]
    assert shapes[1] == shapes[2]
    assert len(set(shapes[0]) & set(shapes[1])) == 23  # those of real models
    assert set(expand(composed("grid=quack", "seed=7").grid)) == set(SHAPES["quack"])


def test_a_dtype_option_names_its_dtypes(composed: Composed) -> None:
    named = {name: composed(f"dtype={name}").dtype.names for name in options("dtype")}
    single = {name: [name] for name in ("float32", "float16", "bfloat16", "float64")}
    three = ["float32", "float16", "bfloat16"]
    assert named == {"native": None, "common": three, **single}  # native: the grid's own
