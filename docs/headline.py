"""README's speeds again, by pandas and from the rows alone: ``python -m docs.headline``."""

from pathlib import Path

import numpy as np
import pandas as pd

SETS = ("h200_limits", "h200_attention*", "h200_cross_entropy", "h200_backward")
POINT = ["operation", "rows", "cols", "dtype"]
VISIT = [*POINT, "roof", "sweep", "card", "round"]
BY = {one.stem: one.read_text().partition("\nby: ")[2] for one in Path("conf/kernel").iterdir()}

parts, recorded = [], Path("outputs/reference")
for path in (one for name in SETS for one in recorded.glob(f"{name}/*/rows.jsonl.gz")):
    jobs = pd.read_json(path.with_name("jobs.jsonl.gz"), lines=True)
    tuned = np.repeat(~jobs["job"].str.startswith("held_out").to_numpy(), jobs["rows"])
    parts.append(pd.read_json(path, lines=True, dtype=False).assign(tuned=tuned))
rows = pd.concat(parts).sort_values("attempt", kind="stable")  # the last attempt counts
rows["tuned"] = rows.groupby(["operation", "cols"])["tuned"].transform("any")
rows["tuned"] |= rows["cols"].isin([1280, 20480, 50257])  # kernels were changed for these since
rows["by"] = rows["kernel"].map(BY).str.split().str[0]
rows = rows.drop_duplicates(["sweep", "card", "round", "key"], keep="last")
rows = rows.query("status == 'ok' and timer == 'events' and cache == 'cold'")
rows = rows.sort_values("time_us").drop_duplicates([*VISIT, "kernel"])
roofs = rows[rows["operation"] == rows["roof"]].drop_duplicates(VISIT)
ours = rows[rows["by"] == "ours"].merge(roofs, "left", VISIT[1:], suffixes=("", "_roof"))
# no win is above the roof: where most visits are, the roof's time counts
above = (ours["time_high_us"] < ours["time_low_us_roof"]).groupby([ours[x] for x in POINT])
ours["our_us"] = ours["time_us"].mask(above.transform("mean") > 0.5, ours["time_us_roof"])
both = rows[~rows["by"].isin(["ours", np.nan])].merge(ours[[*VISIT, "our_us"]], on=VISIT)
both["log"], both["quack"] = np.log(both["time_us"] / both["our_us"]), both["by"] == "quack"
both["large"], both["few"] = both["compulsory_bytes"] >= 256e6, both["rows"] <= 64
place = [*POINT, "large", "few", "tuned"]
means = both.groupby([*place, "kernel"]).agg({"log": "mean", "quack": "max"})
points = means.groupby(place).agg({"log": "min", "quack": "max"})
for by in (["large", "tuned"], ["large", "few", "quack"], ["large", "few", "tuned", "quack"]):
    logs = points.groupby(["operation", *by])["log"]
    print(logs.agg(points="size", speed=lambda one: np.exp(one.mean())))
