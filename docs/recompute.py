"""The headline of `limits` again, from its rows alone, for a reader who trusts no code of ours.

    python docs/recompute.py outputs/reference/h200_limits/limits.tar.gz

takes archives, folders and rows.jsonl files, and needs pandas alone. A visit is one round on one
card of a sweep, where a ratio divides two times; cards that shared a sweep's points made one
recording of it. A point (shape, dtype, timer) has the geometric mean of its visits. Where `auto`
is above the roof, beyond its interval and in most visits, the copy's time stands for its own.
"""

import json
import math
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from statistics import median, stdev
from typing import Any, cast

import pandas as pd

OWN = "auto"
PEERS = ["torch", "compiled", "compiled_softmax", "compiled_max", "liger", "flag_gems", "quack",
         "helion"]  # fmt: skip
COPIES = ["copy", "copy_triton", "copy_hinted"]
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}
TUNED = {2**k for k in range(8, 21)} | {32000}  # widths of the grids that auto was tuned on
T95 = [12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306]  # Student's t, 1 to 8
PARTS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "256 MB and more": lambda p: p["moved"] >= 256e6,
    "1 GB and more": lambda p: p["moved"] >= 1e9,
    "16 MB to 256 MB": lambda p: 16e6 <= p["moved"] < 256e6,
    "below 16 MB": lambda p: p["moved"] < 16e6,
    "M above 4096": lambda p: p["rows"] > 4096,
    "M from 65 to 4096": lambda p: 64 < p["rows"] <= 4096,
    "M up to 64": lambda p: p["rows"] <= 64,
    "below 25 µs": lambda p: p["us"] < 25,
    "all": lambda p: True,
}


def lines(path: Path) -> Iterator[bytes]:
    """The lines of every rows.jsonl in a folder or an archive."""
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for member in sorted(archive.getmembers(), key=lambda one: Path(one.name)):
                if Path(member.name).name == "rows.jsonl" and (file := archive.extractfile(member)):
                    yield from file
    elif path.is_dir():
        for inside in sorted([*path.rglob("rows.jsonl"), *path.rglob("rows.tar.gz")]):
            yield from lines(inside)
    else:
        yield from path.open("rb")


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(math.fsum(logs := [math.log(one) for one in values]) / len(logs))


def points(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """A dictionary for each shape, dtype and timer at which auto and a peer were timed together."""
    place = ["gpu", "timer", "cache", "rows", "cols", "dtype"]
    for where, here in rows.groupby(place):
        gpu, timer, cache, m, n, dtype = cast(tuple[str, str, str, int, int, str], where)
        visits = {v: one.set_index("kernel") for v, one in here.groupby(["unit", "card", "round"])}
        visits = {v: one for v, one in visits.items() if OWN in one.index
                  and not one.index.intersection(PEERS).empty}  # fmt: skip
        if not visits:
            continue
        us = {v: one["time_us"].to_dict() for v, one in visits.items()}
        ratios = {
            kernel: mean(t[kernel] / t[OWN] for t in us.values() if kernel in t)
            for kernel in [*PEERS, *COPIES] if any(kernel in t for t in us.values())
        }  # fmt: skip
        best = min((k for k in PEERS if k in ratios), key=ratios.__getitem__)
        roof = min((k for k in COPIES if k in ratios), key=ratios.__getitem__, default=OWN)
        copies = {v: one[one.index.isin(COPIES)].sort_values("time_us", kind="stable")
                  for v, one in visits.items()}  # fmt: skip
        above = sum(visits[v].loc[OWN, "time_high_us"] < one["time_low_us"].iloc[0]
                    for v, one in copies.items() if not one.empty)  # fmt: skip
        held = {v: max(t[OWN], t.get(roof, 0.0)) if 2 * above > len(us) else t[OWN]
                for v, t in us.items()}  # fmt: skip
        own = mean(t[OWN] for t in us.values())
        yield {
            "group": (gpu, timer, cache, "tuned" if n in TUNED else "held out"),
            "name": f"{m}×{n} {dtype}", "rows": m, "moved": 2 * m * n * BYTES[dtype], "us": own,
            "best": {v: (t[best], held[v]) for v, t in us.items() if best in t},
            "torch": {v: (t["torch"], held[v]) for v, t in us.items() if "torch" in t},
            "ratio": ratios[best], "gap": (ratios[best] - 1) * own,
        }  # fmt: skip


def number(found: list[dict[str, Any]], rival: str, take: Callable[..., float]) -> str:
    """One number of many points; its 95 % interval is of recordings, or the rounds of only one."""
    if not (each := [p[rival] for p in found if p[rival]]):
        return "–"
    value = take([[mean(side) for side in zip(*visits.values(), strict=True)] for visits in each])
    most = [visits for visits in each if len(visits) == max(map(len, each))]
    times: dict[str, dict[int, list[Any]]] = {}
    for (unit, _, turn), pair in (item for visits in most for item in visits.items()):
        times.setdefault(unit, {}).setdefault(turn, []).append(pair)
    rounds = [list(map(take, one.values())) for one in times.values()]
    units = rounds[0] if len(rounds) == 1 else list(map(mean, rounds))
    if len(units) == 1:
        return f"{value:.3f}"
    reach = T95[len(units) - 2] * stdev(map(math.log, units)) / math.sqrt(len(units))
    return f"{value:.3f} ({value * math.exp(-reach):.3f}–{value * math.exp(reach):.3f})"


def main(paths: list[str]) -> None:
    """Prints the table."""
    read = (json.loads(line) for path in paths for line in lines(Path(path)))
    known = (row for row in read if row["kernel"] in (OWN, *PEERS, *COPIES))
    rows = pd.DataFrame(
        row
        | {
            "card": f"{row['sweep']}/{row['card']}/{row['environment'].get('mark')}",
            "params": json.dumps(row["params"], sort_keys=True),
            **{"samples_us": None, "environment": None},  # which take most of the memory
        }
        for row in known
    )
    rows = rows.sort_values("attempt", kind="stable")  # of attempts the last counts
    rows = rows.drop_duplicates(["sweep", "key", "card", "round"], keep="last").sort_index()
    rows = rows[(rows["status"] == "ok") & (rows["backend"] != "interpreter")]
    several = rows.groupby(["sweep", "key", "round"])["card"].transform("nunique") > 1
    rows["unit"] = rows["card"].where(rows["sweep"].isin(rows["sweep"][several]), rows["sweep"])
    same = ["gpu", "timer", "cache", "rows", "cols", "dtype", "card", "round", "kernel"]
    rows = rows.drop_duplicates([*same, "params"], keep="last")  # an edited kernel's older rows
    rows = rows.sort_values("time_us", kind="stable").drop_duplicates(same)  # the fastest setting
    found = list(points(rows))
    heads = ["points", "timer", "widths", "count", "× best peer", "summed", "peer less auto, µs",
             "× torch", "least × best peer"]  # fmt: skip
    print(" | ".join(heads))
    for (part, inside), group in product(PARTS.items(), sorted({p["group"] for p in found})):
        if some := [p for p in found if p["group"] == group and inside(p)]:
            least, gaps = min(some, key=lambda p: p["ratio"]), [p["gap"] for p in some]
            print(part, *group[1:2], group[3], len(some),
                  number(some, "best", lambda pairs: mean(a / b for a, b in pairs)),
                  number(some, "best", lambda pairs: math.fsum(a for a, _ in pairs)
                         / math.fsum(b for _, b in pairs)).split(" ")[0],
                  f"{median(gaps):.2f} ({min(gaps):.2f} to {max(gaps):.2f})",
                  number(some, "torch", lambda pairs: mean(a / b for a, b in pairs)),
                  f"{least['ratio']:.3f} at {least['name']}", sep=" | ")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
