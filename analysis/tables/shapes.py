"""The shapes at which the main results are told."""

from __future__ import annotations

import pandas as pd

from analysis.published import sources
from analysis.tables.outcomes import Shape

IRREGULAR = (1823, 781)  # D-test
MOST = 8  # shapes told where rows hold none of the sources' own


def key_shapes(rows: pd.DataFrame) -> list[Shape]:
    """Those of the sources' printed numbers and of D's test that rows have, else a spread of all.

    Ordered by M and N.
    """
    present = sorted({(int(m), int(n)) for m, n in rows[["rows", "cols"]].to_numpy()})
    wanted = {IRREGULAR, *_printed()}
    found = [shape for shape in present if shape in wanted]
    if len(found) > 1 or len(present) <= MOST:
        return found if len(found) > 1 else present
    return [present[round(i * (len(present) - 1) / (MOST - 1))] for i in range(MOST)]


def _printed() -> set[Shape]:
    shapes = set()
    for source in sources().values():
        for series in source.series.values():
            at = series.rows if series.over == "cols" else series.cols
            if at is not None:
                pairs = [(at, s) if series.over == "cols" else (s, at) for s in series.sizes]
                shapes |= set(pairs)
    return shapes
