"""Folders of odd rows: what a crash, an old version, another card or a joker may leave behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.data.rows import Row
from tests.analysis.plausible import interpreted, row, unsupported, write
from tests.analysis.records import count, counters, record_files

JOKE = (
    "\x1b[31mred\x1b[0m | \\textbf{x} $&%#_~^ </script><script>alert(1)</script>\n"
    "[a](javascript:b) `c` \u202e ${d} %s {0} "
)
KERNELS = ("naive", "fused", "copy")
WIDTHS = (1024, 4096)


def few(**changes: Any) -> list[Row]:
    """Enough to draw lines from: three kernels at two widths."""
    return [row(kernel, n, **changes) for kernel in KERNELS for n in WIDTHS]


def edited(folder: Path, **changes: Any) -> None:
    """A few rows of a sweep of their own, with changes that no model would let through."""
    sweep = {"sweep": " ".join(changes)}
    lines = [json.dumps(r.model_dump() | sweep | changes) for r in few()]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")


def declare(folder: Path, **changes: str) -> None:
    """``variants.json`` of naive and fused, with changes."""
    measured = {
        "naive": {"reads": "5MN + 2M", "writes": "3MN + 2M", "formula": "8MN + 4M", "on_chip": "1"},
        "fused": {"reads": "MN", "writes": "MN", "formula": "2MN", "on_chip": "N"},
    }
    rest = {"target": "x", "operation": "softmax", "backend": "triton", "params": {},
            "source": "0123456789abcdef", "idea": "An idea.", "latex": "2 M N"}  # fmt: skip
    whole = {name: rest | {"kernel": name} | own | changes for name, own in measured.items()}
    (folder / "variants.json").write_text(json.dumps(whole))


def partly_failed(folder: Path) -> None:
    """Every way to fail beside what went well."""
    failed = ("incorrect", "out_of_memory", "compile_error", "launch_error", "timeout", "crashed")
    rows = few() + [unsupported("fused_row", n) for n in WIDTHS]
    rows += [
        row("torch", 4096 + 128 * i, time_us=None, status=status, reason=f"it was {status}")
        for i, status in enumerate(failed)
    ]
    write(folder, rows)


def nothing_worked(folder: Path) -> None:
    """Not one row has a time."""
    write(folder, [row(k, n, time_us=None, status="crashed", reason="lost") for k in KERNELS
                   for n in WIDTHS])  # fmt: skip


def two_gpus(folder: Path) -> None:
    """A card with a datasheet and one that nobody has heard of."""
    write(folder, few() + few(gpu="Nonesuch X-1"))
    record_files(folder, counters=[counters("naive", 4096, 4096, 5, 3)])


def hostile(folder: Path) -> None:
    """Every text is a joke, on a terminal, in LaTeX, in HTML and in Markdown."""
    texts = {"reason": JOKE, "suspect": [JOKE], "environment": {"commit": JOKE, JOKE: JOKE},
             "stop_reason": JOKE, "throttled": [JOKE], "gpu": JOKE, "sweep": JOKE}  # fmt: skip
    rows = [r.model_dump() | texts for r in few()]
    rows += [r | {"kernel": JOKE + "long" * 30, "params": {JOKE: JOKE}} for r in rows[:2]]
    rows += [r | {"kernel": "online", "status": "unsupported", "time_us": None} for r in rows[:2]]
    (folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    declare(folder, idea=JOKE, reads=JOKE, on_chip="9" * 30 + "N", formula="9**9**9", latex=JOKE)
    record_files(folder, counts=[count("naive", reason=JOKE, method="none", tensors=[])])


def repeated(folder: Path) -> None:
    """Each row twice, an attempt each, and the last line cut short."""
    write(folder, few() + few(attempt=2) + few())
    path = folder / "rows.jsonl"
    path.write_text(path.read_text()[:-50])
    declare(folder)


def sizes_at_the_edge(folder: Path) -> None:
    """No rows at all, one column, and a width that no memory holds."""
    edges = ((0, 1024), (4096, 1), (1, 2**40))
    write(folder, [row(k, n, rows=m) for k in KERNELS for m, n in edges])


def same_names(folder: Path) -> None:
    """A gradient and an addition, of which kernels are called as some of softmax's."""
    write(folder, [
        row(kernel, n, key=f"{name} {kernel} {n}", operation=name, roof="add",
            compulsory_bytes=12 * 4096 * n)
        for name, kernel in (("softmax_backward", "naive"), ("add", "naive"), ("add", "add"))
        for n in WIDTHS
    ])  # fmt: skip


def odd_fields(folder: Path) -> None:
    """Names that are empty, intervals upside down, and tunables of tunables."""
    params = {"a": [{"b": None}], "c": {}}
    edited(folder, gpu="", sweep="", time_low_us=9e9, time_high_us=1e-9, params=params)


Make = Callable[[Path], object]
SOUND: Mapping[str, Make] = {
    **{
        make.__name__: make
        for make in (partly_failed, two_gpus, hostile, repeated, same_names, odd_fields)
    },
    "no_bytes": lambda folder: edited(folder, model_bytes=None, compulsory_bytes=None),
    "no_protocol": lambda folder: edited(folder, timer=None, cache=None),
    "no_interval": lambda folder: edited(folder, time_low_us=None, time_high_us=None),
}
EITHER: Mapping[str, Make] = {
    "nothing_worked": nothing_worked,
    "sizes_at_the_edge": sizes_at_the_edge,
    "unknown_operation": lambda folder: edited(folder, operation="attention"),
    "one_row": lambda folder: write(folder, [row("torch", 1024)]),
    "copies_alone": lambda folder: write(folder, [row("copy", n) for n in WIDTHS]),
    "interpreted": lambda folder: write(folder, [interpreted("online", 8)]),
}


def holding(name: str, data: bytes) -> Make:
    """A few good rows, and a file with something else in it."""
    return lambda folder: write(folder, few()) and (folder / name).write_bytes(data)


# Values outside the schema are tests of experiments.data; here one of them stands for all.
REFUSED: Mapping[str, Make] = {
    "empty": holding("rows.jsonl", b""),
    "another_version": lambda folder: edited(folder, schema_version=2),
    "another_field": lambda folder: edited(folder, colour="\x1b[31m"),
    "too_deep": holding("rows.jsonl", b"[" * 10**5 + b"\n"),
    "not_text": holding("rows.jsonl", b"\x00\xff\n\x1b[31m\n"),
    "a_folder": lambda folder: (folder / "rows.jsonl").mkdir(),
    "counts_of_an_unknown_dtype": lambda folder: (
        write(folder, few())
        and record_files(folder, counts=[count("naive").model_copy(update={"dtype": "float8"})])
    ),
    "bad_counts": holding("counts.jsonl", b"\xff\xfe\n"),
    "bad_declarations": holding("variants.json", b"\xff["),
    "deep_declarations": holding("variants.json", b"[" * 10**5),
}
