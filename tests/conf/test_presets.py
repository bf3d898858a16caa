"""Every preset composes, whole, and can still be overridden from the command line."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from experiments.sweep import jobs
from tests.conf import KERNELS, expand, options
from tests.conftest import CONF, Composed

# those of the sources
VARIANTS = {
    *("naive", "naive_script", "torch", "three_pass", "fused", "fused_row"),
    *("hybrid", "online", "copy", "copy_triton"),
}


@pytest.mark.parametrize("preset", options("experiment"))
def test_jobs_of_a_preset_compose_with_every_choice(preset: str, composed: Composed) -> None:
    asked, met = jobs.combinations([f"experiment={preset}"]), set[str]()
    for job in asked:
        # tests/kernels/test_kernel.py builds each; Hydra composes one as it does another
        assert choice(job, "kernel") in KERNELS
        others = {option for option in job if not option.startswith("kernel=")}
        if met and met.issuperset(others):
            continue
        met |= {*others, "kernel"}
        config = composed(*job)
        assert config.name == preset.removeprefix("recorded/")
        assert config.kernel["_target_"]
        assert expand(config.grid)
        OmegaConf.to_container(config, resolve=False, throw_on_missing=False)
    kernels = {choice(job, "kernel") for job in asked}
    # where a tunable is swept, which a roof does not have, the sweep adds the roof by itself
    tuned = any(option.startswith("kernel.") for job in asked for option in job)
    assert tuned or kernels & {"copy", "copy_triton", "add"}
    if preset in ("paper", "smoke", "cpu"):
        assert kernels >= VARIANTS


@pytest.mark.parametrize("preset", options("experiment"))
def test_preset_opens_with_the_command_that_runs_it(preset: str) -> None:
    text = (CONF / "experiment" / f"{preset}.yaml").read_text()
    assert f"# make sweep EXPERIMENT={preset}\n" in text
    assert f"# python -m experiments.run experiment={preset}\n" in text


def test_what_is_typed_replaces_what_the_preset_sweeps(composed: Composed) -> None:
    typed = ["experiment=paper", "grid=wide", "dtype=float16"]
    found = jobs.combinations([*typed, "kernel=fused,online"])
    assert {tuple(sorted(job)) for job in found} == {
        tuple(sorted([*typed, f"kernel={kernel}"])) for kernel in ("fused", "online")
    }


def test_a_run_without_m_is_a_sweep_into_its_own_folder(composed: Composed) -> None:
    config = composed()
    assert config.hydra.output_subdir is None
    assert config.out == "outputs/adhoc"
    assert composed("experiment=cpu").out == "outputs/cpu"


def choice(job: list[str], group: str) -> str:
    """What a job's overrides choose for a group."""
    return next(o.split("=", 1)[1] for o in job if o.startswith(f"{group}="))


def test_jobs_that_differ_in_values_are_what_hydra_composes_of_each(composed: Composed) -> None:
    for size, rows in (("512", "[1,2]"), ("null", "7"), ("'1024'", "${seed}")):
        words = ["kernel=online", f"kernel.block_size={size}", "grid=smoke", f"grid.rows={rows}"]
        whole = composed(*words)
        found, _ = jobs.composed(words)
        assert found == {key: value for key, value in whole.items() if key != "hydra"}
    assert jobs._composed.cache_info().currsize == 1
