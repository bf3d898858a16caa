"""Command lines that nobody should type, as a strategy of lists of arguments."""

from __future__ import annotations

from hypothesis import strategies as st

KEYS = (
    "kernel", "kernel._target_", "kernel.block_size", "grid", "grid.rows", "grid.cols",
    "grid.shapes", "dtype.names", "gpu", "gpu.card", "gpu.match", "gpu.facts.l2_mib",
    "timing.timer", "timing.warmup", "timing.precision", "tracker", "experiment", "name", "rounds",
    "seed", "overwrite", "hydra.mode", "hydra.launcher.cards", "hydra.sweeper.params", "hydra",
    "hydra.job.chdir", "hydra.searchpath", "hydra.verbose", "hydra/launcher", "defaults", "a.b.c",
    "@", "", "hydra.sweep.dir", "hydra/sweeper", "hydra.callbacks", "kernel@x", "@_global_",
    "kernel._args_", "schema", "dry_run",
)  # fmt: skip
VALUES = (
    "", "0", "-1", "2", "7.5", "1e400", "nan", "null", "true", "99999999999999999999", "0x10",
    "1_000", "online", "copy", "smoke", "float16", "cpu", "h200", "cold", "none", "online,torch",
    "1,,2", ",", "[]", "[-1]", "[[1,2],[3]]", "[a]", "{a: 1}", "{first: 1, last: 64, step: 3}",
    "{first: 9, last: 1, step: 0}", "../../x", "${oc.env:HOME}", "${nonsense}", "${", "a b", "µ×",
    "\u202e", "'", "\\", "[", "}", "%s", "x=y", "--", "os.system", "experiments.run.main",
    "tests.doubles.kernels.Good", "range(1,4)", "range(0,10,0)", "choice()", "glob(*)", "tag(a,1)",
    "interval(0,1)", "int(x)", "[null]", "'online'", "???", "${.}", "basic", "slurm",
    "shuffle(range(1,5))", "extend_list(1)", "[" * 60 + "]" * 60, "x" * 300, "\n", "a/../b",
)  # fmt: skip
FLAGS = ("-m", "--cfg", "--nonsense", "-x", "--config-name=x", "--config-dir=/nonsense", "--", "-",
         "kernel", "=", "+", "~kernel", "~timing.timer")  # fmt: skip


@st.composite
def overrides(draw: st.DrawFn) -> str:
    """One override, mostly well formed."""
    sign = draw(st.sampled_from(["", "", "", "", "+", "++", "~"]))
    if sign == "~" and draw(st.booleans()):
        return f"~{draw(st.sampled_from(KEYS))}"
    value = draw(st.one_of(st.sampled_from(VALUES), st.text("0123456789[]{},:.ab'$ ", max_size=12)))
    return f"{sign}{draw(st.sampled_from(KEYS))}={value}"


COMMAND_LINES = st.lists(
    st.one_of(overrides(), overrides(), overrides(), st.sampled_from(FLAGS)), min_size=1, max_size=4
)
