"""Completeness against the preset: kernels and grids that it names and a sweep of it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from analysis.validation.finding import Finding, some
from analysis.validation.sweeps import Sweep

PRESETS = Path(__file__).resolve().parents[2] / "conf" / "experiment"


def preset(sweep: Sweep) -> Iterator[Finding]:
    """Warnings: a sweep may be a part of its preset by intent, but a reader should know."""
    names = {job.config.get("name") for job in sweep.jobs if job.config}
    for name in sorted(filter(_is_name, map(str, names))):
        path = PRESETS / f"{name}.yaml"
        asked = _asked(path) if path.is_file() else {}
        found = {
            "kernel": {re.split(r"[,-]", job.label)[0] for job in sweep.jobs},
            "grid": {job.grid for job in sweep.jobs},
        }
        for group, known in found.items():
            if lost := [one for one in asked.get(group, []) if one not in known]:
                what = f"the preset {name} has {group}={some(lost, 20).replace(', ', ',')} too"
                yield Finding("completeness", "part of a preset", sweep.at(), what, grave=False)


def _is_name(name: str) -> bool:
    return re.fullmatch(r"\w+", name) is not None


def _asked(path: Path) -> dict[str, list[str]]:
    told = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    params = told.get("hydra", {}).get("sweeper", {}).get("params", {})
    return {group: str(value).split(",") for group, value in params.items()}
