"""The schemas of the files beside a sweep's rows, and readers of conf/.

``sweep.json`` names the sweep, ``<job>/config.json`` is what Hydra composed, ``variants.json``
what each variant declares.

The classes named ``…Config`` are the options of a sweep: Hydra takes their names and defaults from
here, and a recorded configuration is checked against them. A new option needs a default, so that
older recordings stay readable.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from experiments.data.files import JsonObject, Name, Text, Whole, Written
from experiments.data.rows import MOST_SAMPLES, TIMERS, Dtype

MOST_GRID_SHAPES = 100_000  # shapes of one grid; whoever asks for more has mistyped a number
FOLDER_NAME = r"^\w[\w.,=+-]*$"  # a name of one folder, without / or a leading dot
MOST_POINTS = 500_000  # half a day on an H200; the plan holds all of them in memory
NARROWEST, WIDEST = 256, 262144  # columns; widths drawn at random lie between them
ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
NOT_TUNABLES = ("by", "roof")  # keys of a conf/kernel file: the maker; the roof if not the copy
OURS = "ours"  # the value of ``by`` for the variant that represents this project


def _regular(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text} is no regular expression: {error}") from None
    return text


def _sizes(value: Any) -> Any:
    """A list of sizes, from a list, one size, or ``{first, last, step}``."""
    if not isinstance(value, Mapping):
        return value if value is None or isinstance(value, list) else [value]
    first, last, step = (value.get(name, 0) for name in ("first", "last", "step"))
    if len(value) != 3 or not all(type(end) is int and end > 0 for end in (first, last, step)):
        raise ValueError("a range has first, last and step, each at least 1")
    sizes = range(first, last + 1, step)
    if len(sizes) > MOST_GRID_SHAPES:
        raise ValueError(f"the range has {len(sizes)} sizes; at most {MOST_GRID_SHAPES} are taken")
    return list(sizes)


Extent = Annotated[int, Field(ge=1, le=1 << 40)]  # rows or columns; no device holds 2**40
Axis = Annotated[list[Extent], Field(min_length=1), BeforeValidator(_sizes)]
Limit = Annotated[float, Field(gt=0, le=3600)]  # seconds
Samples = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]  # a row with more would exceed `LINE_BYTES`


class GridConfig(Written):
    """The shapes (M rows, N columns) of a grid; conf/grid has a file for each grid."""

    source: Name  # where the shapes come from, such as a paper
    dtypes: list[Dtype]  # the dtypes of the source
    rows: Axis | None = None  # values of M: one, a list, or ``{first, last, step}``, last included
    cols: Axis | None = None  # values of N, in the same forms
    labels: list[Text] = []  # a label for each width of a list of ``cols``, such as a model's name
    shapes: list[Annotated[list[Extent], Field(min_length=2, max_length=2)]] = []  # more [M, N]
    elements: list[Extent] = []  # instead of ``rows``: M × N of the matrix; M is rounded down
    # how many widths ``seed`` draws at random, even and odd in turn, for the sizes in ``elements``
    drawn: int = Field(0, ge=0, le=MOST_GRID_SHAPES)
    seed: int | None = None

    @model_validator(mode="after")
    def _complete(self) -> GridConfig:
        if self.rows and self.elements:
            raise ValueError("rows and elements both say how many rows there are; set one")
        if self.drawn and (self.seed is None or not self.elements):
            raise ValueError("drawn needs seed and elements beside it")
        heights = max(len(self.rows or ()), len(self.elements))
        if bool(heights) != bool(self.cols or self.drawn) or not (heights or self.shapes):
            raise ValueError("the grid is empty: set rows and cols, or shapes")
        count = heights * len(self.cols or ()) + self.drawn + len(self.shapes)
        if count > MOST_GRID_SHAPES:
            raise ValueError(f"the grid has {count} shapes; at most {MOST_GRID_SHAPES} are taken")
        return self

    def expand(self) -> list[tuple[int, int]]:
        """Every (M, N) once: ``rows`` × ``cols``, drawn widths, then ``shapes``."""
        ns, sizes = self.cols or [], self.elements
        found = [(m, n) for m in self.rows or [] for n in ns]
        found += [(max(1, size // n), n) for size in sizes for n in ns]
        generator, octaves = random.Random(self.seed or 0), math.log2(WIDEST / NARROWEST)
        for i in range(self.drawn):
            width = int(NARROWEST * 2 ** (octaves * generator.random()))
            width += i % 2 - width % 2
            # each size in ``elements`` gets an even and an odd width, then the next size does
            found.append((max(1, sizes[i // 2 % len(sizes)] // width), width))
        found += [(m, n) for m, n in self.shapes]
        return list(dict.fromkeys(found))


class DtypeConfig(Written):
    """The dtypes to run; None stands for the grid's own."""

    names: Annotated[list[Dtype], Field(min_length=1)] | None


class FactConfig(Written):
    """One figure of a card's datasheet, and the document that states it."""

    value: float
    source: Text


class GpuConfig(Written):
    """A card, as ``conf/gpu`` describes it."""

    name: Name
    match: Annotated[Text, AfterValidator(_regular)] | None  # a pattern for the driver's name
    device: Literal["auto", "cuda", "cpu"]  # ``auto`` is CUDA if the host has it, else the CPU
    card: int | None = Field(ge=0, lt=2**16)  # index on the host; None: the launcher chooses
    facts: dict[Name, FactConfig]  # datasheet figures by name; the name ends in the unit


class TimingConfig(Written):
    """The protocol of a measurement; ``conf/timing/auto.yaml`` says what each option is."""

    timer: str = Field(pattern=f"^({'|'.join(['auto', *TIMERS])})$")
    cache: Literal["cold", "warm"]
    warmup: int = Field(ge=0, le=10_000)
    min_samples: Samples
    max_samples: Samples
    precision: float = Field(gt=0, lt=1)
    sampling_limit_s: Limit
    compile_limit_s: Limit

    @model_validator(mode="after")
    def _ordered(self) -> TimingConfig:
        most, least = self.max_samples, self.min_samples
        if most < least:
            raise ValueError(f"max_samples={most} is below min_samples={least}")
        return self


class TrackerConfig(Written):
    """The tracker that gets a copy of the rows; ``mode`` is W&B's option of that name."""

    backend: Literal["wandb", "none"] = "wandb"
    mode: Literal["offline", "online"] = "offline"
    project: Name = "softmax-roofline"
    entity: Name | None = None


class Config(Written):
    """A job's ``config.json``: a kernel over a grid in some dtypes on a card, and how it is run.

    ``conf/config.yaml`` says what each option is. As recorded, ``out`` is the folder's name alone.
    """

    kernel: JsonObject
    grid: GridConfig
    dtype: DtypeConfig
    gpu: GpuConfig
    timing: TimingConfig
    tracker: TrackerConfig
    name: str = Field(max_length=300, pattern=FOLDER_NAME)
    out: str = Field(max_length=1000, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")
    twin: str | None = Field(None, max_length=300, pattern=r"^[A-Za-z0-9]+$")
    rounds: int = Field(1, ge=1, le=MOST_POINTS)
    fresh: bool = False
    seed: int = Field(0, gt=-(2**62), lt=2**62)
    remeasure: bool = True
    determinism: bool = False
    overwrite: bool = False
    only_failed: bool = False
    only_beside: bool = False
    dry_run: bool = False

    @model_validator(mode="after")
    def _exclusive(self) -> Config:
        if self.overwrite and self.only_failed:
            raise ValueError(
                "overwrite=true measures all points again and only_failed=true those that failed; "
                "choose one"
            )
        return self


class SweepNote(Written):
    """The contents of ``sweep.json``."""

    sweep: Name
    # the most points that a command planned, without those that only_beside may skip; 0: unknown
    points: Whole = 0


class Declaration(Written):
    """A variant in ``variants.json``; its formulas count elements (see `kernels.kernel.Kernel`)."""

    kernel: Name
    target: Name
    operation: Name
    roof: Name | None = None
    backend: Name
    params: JsonObject
    source: Name
    packages: JsonObject = {}
    idea: str = Field(max_length=20_000)
    formula: Text
    reads: Text
    writes: Text
    latex: Text | None = None  # of older recordings
    on_chip: Text
    flops: Text | None = None
    exponentials: Text | None = None


@cache
def named_grids() -> dict[str, list[tuple[int, int, str]]]:
    """The points (M, N, dtype) of each grid in conf/grid without random widths, by its name."""
    found = {}
    for name, file in read_yaml(CONF / "grid").items():
        if "dtypes" in file and "drawn" not in file:
            grid = GridConfig.model_validate({k: file[k] for k in file if k != "defaults"})
            found[name] = [(m, n, dtype) for m, n in grid.expand() for dtype in grid.dtypes]
    return found


@cache
def kernel_makers() -> dict[str, str]:
    """The maker (``by``) of each kernel in conf/kernel that names one: `OURS`, ``torch``, …"""
    files = read_yaml(CONF / "kernel").items()
    return {name: str(file["by"]) for name, file in files if "by" in file}


@cache
def read_yaml(folder: Path) -> dict[str, dict[str, Any]]:
    """The contents of each file in a group of conf/, by the file's name, sorted."""
    paths = sorted(folder.glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text("utf-8")) or {} for path in paths}
