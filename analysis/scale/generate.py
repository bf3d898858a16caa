"""A year of nights: folders as sweeps write them, generated from recorded rows. None is measured.

Each night is a sweep of the same preset on the same cards. Cards and nights differ by a factor of
their own, samples are drawn from the recorded ones, code changes once a week.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.data.files import RowsError
from experiments.data.rows import read_rows, rows_files
from experiments.data.statistics import median

CARDS, ROUNDS, SAMPLES = 2, 2, 50
CARD_SPREAD, NIGHT_SPREAD = 0.01, 0.005  # standard deviations of the factors
DAY_S = 86400
Job = tuple[Path, list[dict[str, Any]]]


def generate(source: Path, out: Path, count: int, seed: int = 0) -> int:
    """Writes ``count`` rows below ``out``, a folder a night; returns how many nights they fill.

    Args:
        source: A recorded sweep, whose every row stands for a point of the preset.
        out: A folder that does not exist yet.
        count: Rows in all; the last night ends early.
        seed: Of what is drawn.

    Raises:
        RowsError: ``source`` has no rows.
        FileExistsError: there is something at ``out`` already.
    """
    jobs = [(path, [row.model_dump() for row in read_rows(path)]) for path in rows_files(source)]
    if not any(rows for _, rows in jobs):
        raise RowsError(f"no rows in {source}: name a recorded sweep")
    dice = np.random.default_rng(seed)
    cards = 1 + CARD_SPREAD * dice.standard_normal(CARDS)
    out.mkdir(parents=True)
    left, night = count, 0
    while left > 0:
        factors = cards * (1 + NIGHT_SPREAD * dice.standard_normal())
        left -= _night(source, out / f"night-{night:04}", jobs, left, factors, dice)
        night += 1
    _age(out, night)
    return night


def _night(
    source: Path, out: Path, jobs: list[Job], most: int, factors: np.ndarray,
    dice: np.random.Generator,
) -> int:  # fmt: skip
    """Writes one night of at most ``most`` rows, and returns how many they are."""
    out.mkdir()
    token = hashlib.sha256(out.name.encode()).hexdigest()
    (out / "sweep.json").write_text(json.dumps({"sweep": f"{out.name}-{token[:6]}"}))
    shutil.copy(source / "variants.json", out)
    written = 0
    for path, rows in jobs:
        folder = out / path.parent.relative_to(source)
        folder.mkdir(parents=True)
        shutil.copy(path.parent / "config.json", folder)
        told = [
            json.dumps(row, separators=(",", ":"))
            for row in _visits(rows, f"{out.name}-{token[:6]}", factors, dice)
        ][: most - written]
        (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in told))
        written += len(told)
        if written == most:
            break
    return written


def _visits(
    rows: list[dict[str, Any]], sweep: str, factors: np.ndarray, dice: np.random.Generator
) -> Iterator[dict[str, Any]]:
    week = int(sweep.split("-")[1]) // 7
    commit = hashlib.sha1(f"week {week}".encode()).hexdigest()
    for row in rows:
        key = hashlib.sha256(f"{row['key']} {week}".encode()).hexdigest()[:20]
        told = {"sweep": sweep, "key": key, "environment": row["environment"] | {"commit": commit}}
        for visit in range(ROUNDS):
            for card, factor in enumerate(factors):
                yield row | told | {"card": card, "round": visit} | _times(row, factor, dice)


def _times(row: dict[str, Any], factor: float, dice: np.random.Generator) -> dict[str, Any]:
    if not row["samples_us"]:
        return {}
    recorded = np.asarray(row["samples_us"])
    samples = (recorded[dice.integers(0, len(recorded), SAMPLES)] * factor).round(3).tolist()
    middle = median(samples)
    return {
        "samples_us": samples,
        "time_us": middle.value,
        "time_low_us": middle.low,
        "time_high_us": middle.high,
        "wall_s": row["wall_s"] and row["wall_s"] * factor,
    }


def _age(out: Path, nights: int) -> None:
    """Gives each night's files the age that they would have."""
    today = time.time()
    for night in range(nights):
        written = today - (nights - night) * DAY_S
        for path in rows_files(out / f"night-{night:04}"):
            os.utime(path, (written, written))
