"""This project's kernels against every public one, and against the copy: how near the limit.

Everything here is told of `auto`, the variant that chooses among ours, point by point: a shape, a
dtype, a timer. A rival's time stands over that of `auto` in the same round of the same sweep.
"""

OWN = "auto"
PEERS = ("torch", "compiled", "compiled_max", "liger", "flag_gems", "quack")  # public, any maker's
COPIES = ("copy", "copy_triton", "copy_hinted")
LARGE_BYTES = 256_000_000  # moved, 2MN: from here on memory alone decides
SHORT_US = 25.0  # below, an H200 flips every kernel between two values half a microsecond apart
STEP_US = 0.5  # that distance: no difference below it counts there
LEAST = 0.98  # and elsewhere no ratio above this does
COMMAND = "make sweep EXPERIMENT=limits"
NEEDS = f"timed rows of {OWN} beside {', '.join(PEERS[:-1])} or {PEERS[-1]} ({COMMAND})"
