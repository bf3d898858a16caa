"""Jobs of a sweep, and the roofs that they get beside them."""

from __future__ import annotations

import pytest
import yaml

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
