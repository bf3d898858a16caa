"""Every file of conf/: presets compose and run as they say, grids and cards are their sources'."""

import re

import pytest
from omegaconf import OmegaConf

from experiments.parent import jobs
from tests.conf import KERNELS, expand, options
from tests.conftest import CONF, Composed

# what the sources have
VARIANTS = {
    *("naive", "naive_script", "torch", "three_pass", "fused", "fused_row"),
    *("hybrid", "online", "copy", "copy_triton"),
}
SHAPES = {
    "tutorial": [(4096, n) for n in range(256, 12673, 128)],
    "wide": [(4096, 256 * 4**k) for k in range(6)],
    "point": [(8192, 32000)],
    "few_wide": [(m, 2**k) for m in (1, 8, 64) for k in range(15, 21)],
    "quack": [(32768, 256 * 2**k) for k in range(9)] + [(16384, 131072), (8192, 262144)],
}
CARDS = [name for name in options("gpu") if name not in ("auto", "cpu")]
NAMES = {  # as drivers report them
    "NVIDIA H200": "h200",
    "NVIDIA H200 NVL": None,
    "NVIDIA H100 80GB HBM3": "h100_sxm",
    "NVIDIA H100 PCIe": "h100_pcie",
    "NVIDIA L40S": "l40s",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": None,
    "NVIDIA GeForce RTX 5090": "rtx_5090",
    "A100-SXM4-80GB": "a100_80gb",
    "NVIDIA GeForce RTX 4090": "rtx_4090",
    "NVIDIA GeForce RTX 3090 Ti": "rtx_3090_ti",
    "NVIDIA GeForce RTX 3090": None,
}
UNITS = ("_gbps", "_gb", "_mib", "_tflops", "_mhz", "_w", "_kib_per_sm", "_per_sm_clock", "sms")


@pytest.mark.parametrize("preset", options("experiment"))
def test_a_preset_says_how_it_is_run_and_its_jobs_compose_with_every_choice(
    preset: str, composed: Composed
) -> None:
    text = (CONF / "experiment" / f"{preset}.yaml").read_text()
    assert f"# make sweep EXPERIMENT={preset}\n" in text
    assert f"# python -m experiments.run experiment={preset}\n" in text
    asked, met = jobs.combinations([f"experiment={preset}"]), set[str]()
    chosen = [[o.partition("=")[2] for o in job if o.startswith("kernel=")] for job in asked]
    kernels = {name for [name] in chosen}
    # tests/kernels/test_kernel.py builds each; Hydra composes one as it does another
    assert kernels <= {*KERNELS}
    for job in asked:
        others = {option for option in job if not option.startswith("kernel=")}
        if met and met.issuperset(others):
            continue
        met |= {*others, "kernel"}
        config = composed(*job)
        assert config.name == preset.removeprefix("recorded/")
        assert config.out == f"outputs/{config.name}"
        assert config.kernel["_target_"]
        assert expand(config.grid)
        OmegaConf.to_container(config, resolve=False, throw_on_missing=False)
    # where a tunable is swept, which a roof does not have, the sweep adds the roof by itself
    tuned = any(option.startswith("kernel.") for job in asked for option in job)
    assert tuned or kernels & {"copy", "copy_triton", "add"}
    if preset in ("paper", "smoke", "cpu"):
        assert kernels >= VARIANTS


def test_what_is_typed_replaces_what_the_preset_sweeps(composed: Composed) -> None:
    typed = ["experiment=paper", "grid=wide", "dtype=float16"]
    found = jobs.combinations([*typed, "kernel=fused,online"])
    assert {tuple(sorted(job)) for job in found} == {
        tuple(sorted([*typed, f"kernel={kernel}"])) for kernel in ("fused", "online")
    }


def test_jobs_that_differ_in_values_are_what_hydra_composes_of_each(composed: Composed) -> None:
    for size, rows in (("512", "[1,2]"), ("null", "7"), ("'1024'", "${seed}")):
        words = ["kernel=online", f"kernel.block_size={size}", "grid=smoke", f"grid.rows={rows}"]
        whole = composed(*words)
        found, _ = jobs.configuration_of(words)
        assert found == {key: value for key, value in whole.items() if key != "hydra"}
    assert jobs._by_hydra.cache_info().currsize == 1


@pytest.mark.parametrize("name", SHAPES)
def test_a_grid_has_the_shapes_that_its_source_used(name: str, composed: Composed) -> None:
    assert expand(composed(f"grid={name}").grid) == SHAPES[name]


def test_a_sweep_of_another_seed_holds_out_other_widths(composed: Composed) -> None:
    grids = [composed("grid=held_out", *seed).grid for seed in ([], ["seed=7"], ["grid.seed=7"])]
    shapes = [expand(grid) for grid in grids]
    assert [grid.seed for grid in grids] == [0, 7, 7]
    assert shapes[1] == shapes[2]
    assert len(set(shapes[0]) & set(shapes[1])) == 23  # the shapes of real models
    assert set(expand(composed("grid=quack", "seed=7").grid)) == set(SHAPES["quack"])


def test_every_fact_of_a_card_has_a_value_a_unit_and_a_source_and_its_name_fits_it_alone(
    composed: Composed,
) -> None:
    gpus = {card: composed(f"gpu={card}").gpu for card in CARDS}
    for gpu in gpus.values():
        assert {"memory_gbps", "memory_gb", "l2_mib", "sms"} <= set(gpu.facts)
        for name, fact in gpu.facts.items():
            assert fact.value > 0
            assert len(fact.source) > 10
            assert name.endswith(UNITS)
    for reported, card in NAMES.items():
        fitting = [name for name, gpu in gpus.items() if re.search(gpu.match, reported)]
        assert fitting == ([card] if card else [])
