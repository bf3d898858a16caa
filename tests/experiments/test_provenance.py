"""A row, with its job's config.json beside it, says all that repeats it, and nothing of anyone."""

import json

from experiments.points import PROTOCOL
from tests.conftest import QUICK, Command, shape


def test_a_row_keeps_its_own_protocol_when_the_configuration_beside_it_changes(
    sweep: Command,
) -> None:
    arguments = ["kernel=good", *shape(4, 8), "dtype=float32", "timing.max_samples=20"]
    sweep(*arguments, "timing.min_samples=5", "seed=3")
    done = sweep(*arguments, "timing.min_samples=6", "seed=3")
    protocols = [row.environment["protocol"] for row in done.rows if row.kernel == "good"]
    assert sorted(protocol["min_samples"] for protocol in protocols) == [5, 6]
    for row in done.rows:
        assert set(row.environment["protocol"]) == set(PROTOCOL)
        assert row.environment["seed"] == 3
        assert row.environment["source"]
    assert {row.environment["target"] for row in done.rows} == {
        "kernels.copy.copy.Copy", "tests.doubles.kernels.Good",
    }  # fmt: skip


def test_a_row_names_the_software_and_the_switches_that_were_set(sweep: Command) -> None:
    done = sweep(
        "kernel=good", *shape(4, 8), "dtype=float32", *QUICK,
        OMP_NUM_THREADS="1", TRITON_CACHE_DIR="/nonexistent/someone",
    )  # fmt: skip
    for row in done.rows:
        found = row.environment
        assert {"torch", "numpy", "python", "system", "processor", "commit", "dirty"} <= set(found)
        assert found["threads"] == 1
        assert found["variables"]["OMP_NUM_THREADS"] == "1"
    assert "someone" not in json.dumps([row.model_dump() for row in done.rows])
