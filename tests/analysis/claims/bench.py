"""Claims written as a reader would write them, judged on rows made up for the test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from analysis.claims import Finding, Judgement, judge
from analysis.estimate import Estimate
from analysis.load import Inputs, Records, load
from experiments.data.rows import Row
from tests.analysis.plausible import row, write

WIDTHS = (1024, 2048, 4096)


def write_claims(folder: Path, *checks: dict[str, Any], **claim: Any) -> Path:
    """A claims file with one claim of these checks."""
    fields = {"id": "T1", "source": "A", "place": "a text", "statement": "a test"}
    fields |= {"checks": list(checks)} | claim
    path = folder / "claims.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump([fields], sort_keys=False), encoding="utf-8")
    return path


def judgements(
    folder: Path,
    rows: Iterable[Row],
    *checks: dict[str, Any],
    records: Records | None = None,
    **claim: Any,
) -> list[Judgement]:
    """That claim's judgements on these rows, one per GPU."""
    claims = write_claims(folder, *({"part": "it"} | check for check in checks), **claim)
    frame = load(write(folder / "rows", rows))
    return judge(Inputs(folder, folder, frame, records or Records(), {}), claims)


def judgement(folder: Path, rows: Iterable[Row], *checks: dict[str, Any], **more: Any) -> Judgement:
    """The same where there is one GPU."""
    (one,) = judgements(folder, rows, *checks, **more)
    return one


def found(
    folder: Path, rows: Iterable[Row], *checks: dict[str, Any], **more: Any
) -> tuple[str, Estimate]:
    """Its verdict and its number."""
    one = judgement(folder, rows, *checks, **more)
    return one.verdict, one.estimate or Estimate(float("nan"), float("nan"), float("nan"))


def untestable(folder: Path, rows: Iterable[Row], check: dict[str, Any], **more: Any) -> Finding:
    """The finding of a check that nothing can decide."""
    one = judgement(folder, rows, check, **more)
    assert one.verdict == "not testable here"
    return one.deciding


def timed(kernel: str, cols: int, time: float, slack: float = 0.01, **changes: Any) -> Row:
    """A row of this time with an interval of so much to both sides."""
    bounds = {"time_low_us": time * (1 - slack), "time_high_us": time * (1 + slack)}
    return row(kernel, cols, time_us=time, **bounds | changes)


def ratio(expect: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A check of torch's time over fused's at `WIDTHS`."""
    where = {"rows": 4096, "cols": list(WIDTHS), "dtype": "float32"}
    return {"ratio": {"top": "torch", "bottom": "fused", "where": where} | fields, "expect": expect}


def pairs(*speeds: float) -> list[Row]:
    """fused at 10 µs, torch at so many times that, at the widths in order."""
    return [
        made
        for cols, speed in zip(WIDTHS, speeds, strict=False)
        for made in (timed("fused", cols, 10.0), timed("torch", cols, 10.0 * speed))
    ]
