"""Command lines that nobody should type, as a strategy of lists of arguments."""

from __future__ import annotations

from hypothesis import strategies as st

KEYS = (
    "kernel", "kernel._target_", "kernel.block_size", "kernel.num_warps", "grid", "grid.rows",
    "grid.cols", "grid.shapes", "grid.dtypes", "grid.source", "dtype", "dtype.names", "gpu",
    "gpu.card", "gpu.device", "gpu.match", "gpu.facts", "gpu.name", "timing", "timing.timer",
    "timing.cache", "timing.warmup", "timing.min_samples", "timing.max_samples",
    "timing.precision", "timing.sampling_limit_s", "timing.compile_limit_s", "tracker",
    "tracker.mode", "tracker.backend", "tracker.project", "experiment", "name", "twin", "rounds",
    "fresh", "seed", "remeasure", "overwrite", "only_failed", "hydra.mode", "hydra.launcher.cards",
    "hydra.launcher._target_", "hydra.sweeper._target_", "hydra.sweeper.params",
    "hydra.sweeper.max_batch_size", "hydra.job.chdir", "hydra.job.name", "hydra.searchpath",
    "hydra.verbose", "hydra/launcher", "hydra", "defaults", "nonsense", "a.b.c", "@", "",
    "hydra.run.dir", "hydra.sweep.dir", "hydra.launcher", "hydra.launcher.cards.0", "hydra/sweeper",
    "hydra/job_logging", "hydra.callbacks", "kernel@x", "@_global_", "kernel._args_", "schema",
    "gpu.facts.l2_mib", "gpu.facts.x", "grid.elements", "grid.drawn", "dry_run",
)  # fmt: skip
VALUES = (
    "", "0", "-1", "1", "2", "3", "7.5", "1e30", "1e400", "nan", "inf", "-inf", "null", "true",
    "99999999999999999999", "0x10", "1_000", "online", "fused", "copy", "torch", "smoke", "laptop",
    "float16", "native", "cpu", "auto", "h200", "host", "events", "cold", "none", "wandb", "RUN",
    "online,torch", "1,2", "1,,2", ",", "[]", "[1,2]", "[-1]", "[[1,2],[3]]", "[[4,8]]", "[a]",
    "{}", "{a: 1}", "{first: 1, last: 64, step: 3}", "{first: 1, last: 1000000000, step: 1}",
    "{first: 9, last: 1, step: 0}", "../../x", "/etc/passwd", "${oc.env:HOME}", "${name}",
    "${nonsense}", "${", "$", "a b", "é", "µ×", "\u202e", "'", '"', "\\", "[", "{", "]", "}", "%s",
    "x=y", "=", "-", "--", "os.system", "builtins.exec", "kernels.softmax.online.Online",
    "kernels.softmax", "experiments.run.main", "tests.doubles.kernels.Good", "range(1,4)",
    "range(0,10,0)", "choice(1,2)", "glob(*)", "sort(2,1)", "interval(0,1)", "tag(a,1)", "int(x)",
    "[[0,1]]", "{a: {b: [1]}}", "[null]", "[online,torch]", "'online'", "null,null", "???", "'???'",
    "${grid.rows}", "${.}", "schema", "basic", "slurm", "shuffle(range(1,5))", "sort(a,1)",
    "extend_list(1)", "choice()", "float(a)", "range(1)", "1" * 400, "[" * 60 + "]" * 60, "o@x",
    "x" * 300, "\t", "\n", "a/b", "a/../b", ".", "..", "~", "*", "?", "#", "!", ";", "&", "|",
)  # fmt: skip
FLAGS = ("-m", "--multirun", "--cfg", "--nonsense", "-x", "--config-name=x",
         "--config-dir=/nonsense", "--", "-", "kernel", "=", "+", "~", "~kernel",
         "~timing.timer")  # fmt: skip


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
