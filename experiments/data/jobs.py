"""What lies beside the rows of a sweep: each job's configuration and what its variants declare.

``sweep.json`` names the sweep, ``<job>/config.json`` is what Hydra composed, ``variants.json``
what each variant declares, ``sessions.jsonl`` how long each run of the command took.

The classes named ``…Config`` are the options of a sweep: Hydra takes their names, types and
defaults from here, and a recorded configuration is checked against them. A new option needs a
default, so that older recordings stay readable.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, model_validator

from experiments.data.files import Amount, JsonObject, Name, Text, Whole, Written
from experiments.data.rows import MOST_SAMPLES, Dtype, Timer

MOST = 100_000  # a sweep of more points is a slip of the keyboard
LARGEST = 1 << 40  # elements; a single row of it is beyond any device
DAY_S = 86400.0
PLAIN = r"^\w[\w.,=+-]*$"  # a name that is one folder's, and climbs out of none
MOST_POINTS = 500_000  # half a day of an H200's; planning holds each of them in memory
NARROWEST, WIDEST = 256, 262144  # columns: between them widths are drawn
CONF = Path(__file__).resolve().parents[2] / "conf"
ABOUT = ("by", "roof")  # in a kernel's file: who made it, and its roof where that is not the copy
OURS = "ours"  # made the variant that stands for this project in its operation


def _regular(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"gpu.match={text} is no regular expression: {error}") from None
    return text


Limit = Annotated[float, Field(gt=0, le=DAY_S)]
Samples = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]  # more make rows too long to be read again


class GridConfig(Written):
    """Shapes, named after what they reproduce; see `expand`.

    Attributes:
        labels: What each width of a list of ``cols`` is, in its order: whose vocabulary, say.
    """

    source: Name
    dtypes: list[Dtype]
    rows: Any = None
    cols: Any = None
    labels: list[Text] = []
    shapes: list[list[int]] = []
    elements: list[int] = []
    drawn: int = Field(0, ge=0, le=MOST)
    seed: int | None = None


class DtypeConfig(Written):
    """Which dtypes are run; None takes the grid's own."""

    names: Annotated[list[Dtype], Field(min_length=1)] | None


class FactConfig(Written):
    """A card's datasheet figure and where it stands."""

    value: float
    source: Text


class GpuConfig(Written):
    """A card, as ``conf/gpu`` describes it.

    Attributes:
        name: As people write it.
        match: A regular expression for the driver's name of it; None for ``auto`` and ``cpu``.
        device: ``auto`` is CUDA where there is one.
        card: Index of the card on the host to pin, None for the launcher's own choice.
        facts: Datasheet figures by name, the unit in the name.
    """

    name: Name
    match: Annotated[Text, AfterValidator(_regular)] | None
    device: Literal["auto", "cuda", "cpu"]
    card: int | None = Field(ge=0, lt=2**16)
    facts: dict[Name, FactConfig]


class TimingConfig(Written):
    """The protocol of a measurement.

    Attributes:
        timer: ``auto`` is events on CUDA and the host's clock on a CPU.
        cache: ``cold`` (L2 flushed before each sample) or ``warm``.
        warmup: Samples taken and thrown away first.
        min_samples: Fewest samples before stopping is considered.
        max_samples: The cap.
        precision: Half-width of the 95 % interval, as a share of the median, to stop at.
        sampling_limit_s: Longest that inputs, gate and sampling of one point may take, seconds.
        compile_limit_s: Longest that compiling one point may take, seconds.
    """

    timer: Literal["auto"] | Timer
    cache: Literal["cold", "warm"]
    warmup: Whole
    min_samples: Samples
    max_samples: Samples
    precision: float = Field(gt=0, lt=1)
    sampling_limit_s: Limit
    compile_limit_s: Limit

    @model_validator(mode="after")
    def _ordered(self) -> TimingConfig:
        if self.max_samples < self.min_samples:
            raise ValueError(
                f"timing.max_samples={self.max_samples} is below "
                f"timing.min_samples={self.min_samples}"
            )
        return self


class TrackerConfig(Written):
    """Where rows are mirrored; ``mode`` is W&B's own word."""

    backend: Literal["wandb", "none"] = "wandb"
    mode: Literal["offline", "online"] = "offline"
    project: Name = "softmax-roofline"
    entity: Name | None = None


class Config(Written):
    """A job's ``config.json``: a kernel over a grid in some dtypes on a card, and how it is run.

    Attributes:
        name: The sweep's, one folder's name.
        out: The sweep's folder; as recorded, its name alone.
        twin: Marks the kernel's name, so that one variant can be measured under two (A/A).
        rounds: Visits to all points of the sweep.
        fresh: Whether each round begins in new worker processes.
        seed: Of the inputs and of the order.
        remeasure: Whether a suspect point is measured once more.
        determinism: Whether each point is also judged for giving the same bits at every call, and
            to a row whatever M it comes in.
    """

    kernel: JsonObject
    grid: GridConfig
    dtype: DtypeConfig
    gpu: GpuConfig
    timing: TimingConfig
    tracker: TrackerConfig
    name: str = Field(max_length=300, pattern=PLAIN)
    out: str = Field(max_length=1000, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")
    twin: str | None = Field(None, max_length=300, pattern=r"^[A-Za-z0-9]+$")
    rounds: int = Field(1, ge=1, le=MOST_POINTS)
    fresh: bool = False
    seed: int = Field(0, gt=-(2**62), lt=2**62)
    remeasure: bool = True
    determinism: bool = False
    overwrite: bool = False
    only_failed: bool = False
    dry_run: bool = False

    @model_validator(mode="after")
    def _one_wish(self) -> Config:
        if self.overwrite and self.only_failed:
            raise ValueError(
                "overwrite=true measures all points again and only_failed=true those that failed; "
                "choose one"
            )
        return self


class SweepNote(Written):
    """``sweep.json``."""

    sweep: Name


class Session(Written):
    """A line of ``sessions.jsonl``: one run of the command, in seconds."""

    points: Whole
    planning_s: Amount
    elapsed_s: Amount


class Declaration(Written):
    """A variant's own words and formulas, in elements; see `kernels.kernel.Kernel`."""

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


def expand(grid: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Every (rows, columns) of a grid once: ``rows`` × ``cols``, drawn widths, then ``shapes``.

    Args:
        grid: A composed grid; ``rows`` and ``cols`` each one size, a list of them, or
            ``{first, last, step}`` with both ends included; ``shapes`` a list of pairs. Instead of
            ``rows``, ``elements`` lists sizes of the matrix: a width has as many rows as fit one.
            ``drawn`` more widths come from ``seed``, every other one odd, each at one of the sizes.

    Raises:
        ValueError: in one line, which field is wrong and what would be right.
    """
    ms, ns = (_axis(f"grid.{name}", grid.get(name)) for name in ("rows", "cols"))
    sizes = _axis("grid.elements", grid.get("elements") or None)
    pairs, drawn, seed = grid.get("shapes") or [], grid.get("drawn") or 0, grid.get("seed")
    if ms and sizes:
        raise ValueError("grid.rows and grid.elements both say how many rows there are; set one")
    if drawn and (seed is None or not sizes):
        raise ValueError("grid.drawn needs grid.seed and grid.elements beside it")
    if bool(ms or sizes) != bool(ns or drawn) or not (ms or sizes or pairs):
        raise ValueError("the grid is empty: set grid.rows and grid.cols, or grid.shapes")
    if (count := max(len(ms), len(sizes)) * len(ns) + drawn + len(pairs)) > MOST:
        raise ValueError(f"the grid has {count} shapes; at most {MOST} are taken")
    shapes = [(m, n) for m in ms for n in ns]
    shapes += [(max(1, size // n), n) for size in sizes for n in ns]
    for i, n in enumerate(_drawn_widths(drawn, seed or 0)):
        # neighbours share a size, so that each size has even and odd widths
        shapes.append((max(1, sizes[i // 2 % len(sizes)] // n), n))
    for index, pair in enumerate(pairs):
        name = f"grid.shapes[{index}]"
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ValueError(f"{name} is {pair!r}; a shape is a pair [rows, columns]")
        shapes.append((_size(name, pair[0]), _size(name, pair[1])))
    return list(dict.fromkeys(shapes))


@cache
def named_grids(folder: Path = CONF / "grid") -> dict[str, list[tuple[int, int, str]]]:
    """By name the points (M, N, dtype) of every grid in conf/grid that has the same each time."""
    return {
        name: [(m, n, dtype) for m, n in expand(grid) for dtype in grid["dtypes"]]
        for name, grid in read_yaml(folder).items()
        if "dtypes" in grid and "drawn" not in grid
    }


@cache
def kernel_makers(folder: Path = CONF / "kernel") -> dict[str, str]:
    """By name who made each kernel that says so in conf/kernel: `OURS`, ``torch``, ``quack``."""
    return {name: str(file["by"]) for name, file in read_yaml(folder).items() if "by" in file}


def read_yaml(folder: Path) -> dict[str, dict[str, Any]]:
    """By name every file of a group of conf/, in order."""
    paths = sorted(folder.glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text("utf-8")) or {} for path in paths}


def _drawn_widths(count: int, seed: int) -> list[int]:
    """Even and odd widths in turn, their logarithms uniform."""
    dice, octaves = random.Random(seed), math.log2(WIDEST / NARROWEST)
    widths = (int(NARROWEST * 2 ** (octaves * dice.random())) for _ in range(count))
    return [width - width % 2 + i % 2 for i, width in enumerate(widths)]


def _axis(name: str, value: Any) -> Sequence[int]:
    """The sizes of one axis, none where nothing is given."""
    sizes: Sequence[int]
    if value is None:
        return ()
    if isinstance(value, Mapping):
        if set(value) != {"first", "last", "step"}:
            raise ValueError(f"{name} takes first, last and step, not {', '.join(map(str, value))}")
        ends = {key: _size(f"{name}.{key}", one) for key, one in value.items()}
        sizes = range(ends["first"], ends["last"] + 1, ends["step"])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        sizes = [_size(name, one) for one in value]
    else:
        sizes = [_size(name, value)]
    if not sizes:
        raise ValueError(f"{name} is empty; give at least one size")
    return sizes


def _size(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise ValueError(f"{name} has {value!r}, where a whole number from 1 to 2^40 belongs")
    return value
