"""``python -m experiments.hostcost --out DIR``: what a call of a public function costs the host.

It prints the table, and writes hostcost.json and hostcost.md below ``DIR``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.data.files import write_file
from experiments.data.records import HOSTCOST
from experiments.errors import Parser, UserError
from experiments.probe import asked_of_card


def main() -> None:
    """Measures, prints and writes; the exit status is 2 where there is no CUDA device."""
    parser = Parser(prog="python -m experiments.hostcost", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("outputs/hostcost"), metavar="DIR")
    out = parser.parse_args().out
    try:
        _, cost = asked_of_card("hostcost", out)
    except UserError as error:
        parser.exit(2, f"error: {error}\n")
    if cost is None:
        parser.exit(2, "error: hostcost needs a CUDA device: it times launches of kernels\n")
    printed = table(cost["layers"])
    print(printed)
    write_file(out / HOSTCOST, json.dumps(cost, indent=1) + "\n")
    write_file(out / "hostcost.md", printed + "\n")


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """The records as Markdown."""
    lines = ["| layer | µs a call | 95 % | × PyTorch's |", "|---|---|---|---|"]
    for r in records:
        span = f"{r['host_low_us']:.2f}–{r['host_high_us']:.2f}"
        lines.append(f"| {r['layer']} | {r['host_us']:.2f} | {span} | {r['ratio']:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
