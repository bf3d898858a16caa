"""Up to which N a variant ran in the rows, and what stopped it."""

from __future__ import annotations

import pandas as pd

from analysis.format import thousands


def widths_told(seen: pd.DataFrame, label: str, dtype: str) -> str:
    """One sentence a GPU: the widest N that ran, and the narrowest that did not, with its reason.

    Args:
        seen: Rows with a column ``label``.
        label: The variant's label.
        dtype: Whose rows are told; where there are none, all others are, by name.
    """
    mine = seen[seen["label"].eq(label) | seen["kernel"].eq(label)]
    if mine.empty:
        return "–"
    own = mine[mine["dtype"] == dtype]
    if own.empty:
        return "; ".join(
            f"{other}: {widths_told(mine, label, str(other))}"
            for other in sorted(set(mine["dtype"]))
        )
    mine = own
    told = {str(gpu): _sentence(rows) for gpu, rows in mine.groupby("gpu", sort=True)}
    if len(set(told.values())) == 1:
        return next(iter(told.values()))
    return "; ".join(f"{gpu}: {sentence}" for gpu, sentence in told.items())


def _sentence(rows: pd.DataFrame) -> str:
    ran = rows[rows["status"] == "ok"]
    stopped = rows[rows["status"] != "ok"].sort_values("cols", kind="stable")
    widest = f"ran to N = {thousands(ran['cols'].max())}" if len(ran) else "ran nowhere"
    if stopped.empty:
        return f"{widest}, the widest tried"
    one = stopped.iloc[0]
    why = f": {one['reason']}" if one["reason"] else ""
    return f"{widest}; {one['status']} at {thousands(one['cols'])}{why}"
