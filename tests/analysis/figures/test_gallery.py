"""All pictures in one order, the same bytes whenever they are drawn, each with its provenance."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.figures.card_to_card import CARD_TO_CARD
from analysis.figures.limits import HEADLINE, LIMITS, LIMITS_RATIO
from analysis.figures.multiples import D_FIG1_GPUS, DTYPES_TIME
from analysis.figures.page import Canvas
from analysis.figures.specs import CROSS_ENTROPY, E_FIG1
from analysis.figures.style import style_of
from analysis.gallery import DRAWN, ENTRIES, Entry, Picture, missing, pictures, pictures_with_packed
from analysis.limits import OWN, PEERS
from analysis.load import COUNTED, Inputs, Records, kernel_name, load_records, read_inputs
from tests.analysis.drawing import frame_of, overhang, rendered
from tests.analysis.figures.test_style import SIGHT, lab
from tests.analysis.plausible import PAPER, row
from tests.conftest import ROOT

SOURCED = ["a_fig1", "a_fig2", "b_fig1", "c_fig1", "c_fig2", "c_fig3", "d_fig1", "e_fig1"]
OURS = ["speedup_naive", "speedup_torch", "backward", *(str(one.id) for one in CROSS_ENTROPY),
        "dtypes_time", "dtypes_bandwidth"]  # fmt: skip
PACKED_ALONE = (HEADLINE, LIMITS, LIMITS_RATIO, CARD_TO_CARD)
ROOFS = {"copy", "add", "read", "attention_io", "matmul", "exponentials"}
MIXED = (E_FIG1, DTYPES_TIME, LIMITS, CARD_TO_CARD)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Rows on two cards of one kind and one of another, for every kind of figure."""
    kernels = ("naive", "torch", "auto", "fused_row", "copy")
    rows = [row(k, n, dtype=d) for k in kernels for n in PAPER for d in ("float32", "float16")]
    rows += [row(k, 32000, rows=m, dtype="float16") for k in kernels for m in (1, 4, 16, 64)]
    rows += [one.model_copy(update={"card": 1}) for one in rows]
    other = {"gpu": "NVIDIA A100-SXM4-80GB"}
    rows += [one.model_copy(update=other | {"key": f"{one.key}-"}) for one in rows[:60]]
    return frame_of(tmp_path_factory.mktemp("mixed"), rows)


@pytest.mark.usefixtures("small_pictures")
@pytest.mark.parametrize("figure", MIXED, ids=lambda figure: str(figure.id))
def test_it_is_the_same_bytes_when_drawn_twice(
    figure: Entry, mixed: pd.DataFrame, tmp_path: Path
) -> None:
    shuffled = mixed.sample(frac=1, random_state=1)
    first, second = (figure.pages(Records(), frame)[-1] for frame in (mixed, shuffled))
    for one, two in zip(first.files(tmp_path / "1"), second.files(tmp_path / "2"), strict=True):
        assert one.read_bytes() == two.read_bytes()
        for fact in (b"NVIDIA H200", b"events, cold", b"commit 0123456789ab", b"rows "):
            assert fact in one.read_bytes()
    (tmp_path / f"{first.name}.svg").symlink_to(one)
    with pytest.raises(OSError, match="is a symbolic link"):
        first.files(tmp_path)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Picture]:
    """What `make figures` and `make roofline` draw where nothing was measured: no rows named."""
    clone = tmp_path_factory.mktemp("clone")
    (clone / "outputs").mkdir()
    (clone / "outputs" / "reference").symlink_to(ROOT / "outputs" / "reference")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(clone)
        return list(pictures_with_packed(read_inputs(None, None, "figures")))


@pytest.fixture(scope="module")
def canvases(recorded: list[Picture]) -> list[tuple[Picture, Canvas]]:
    return [(picture, rendered(picture.page)) for picture in recorded]


def test_no_figure_of_one_operation_has_a_kernel_of_another(
    canvases: list[tuple[Picture, Canvas]],
) -> None:
    counts = load_records(ROOT / COUNTED, ROOT / COUNTED).counts
    operations = {kernel_name(count.kernel): count.operation for count in counts}
    seen: dict[str, set[str]] = {}
    for picture, canvas in canvases:
        rows = [mark.row for mark in canvas.kept]
        names = {kernel_name(str(row.get("variant", "")).split(" ")[0]) for row in rows}
        found = {row["operation"] for row in rows if "operation" in row}
        found |= {operations[name] for name in names & {*operations}}
        assert len(found - ROOFS) <= 1, picture.page.name
        seen.setdefault(picture.id, set()).update(names)
    assert {"backward", "backward_torch"} <= seen["backward"]  # the recorded gradient has a figure
    assert {"naive", "fused", "online", "torch"} <= seen["d_fig1"]


def test_variants_of_one_figure_stay_apart_for_eyes_that_confuse_colours(
    canvases: list[tuple[Picture, Canvas]],
) -> None:
    together = [{OWN, *PEERS}]
    for picture, canvas in canvases:
        if picture.id == "traffic":  # a line for each, named beside it
            continue
        names = {str(mark.row.get("variant", "")) for mark in canvas.kept}
        together.append({kernel_name(name.split(" ")[0]) for name in names})
    pairs = {
        pair
        for names in together
        for pair in itertools.combinations(sorted(filter(None, names)), 2)
    }
    assert {("compiled", "quack"), ("fused_row", "hybrid"), ("naive", "online")} <= pairs
    for pair in pairs:
        first, second = map(style_of, pair)
        assert first.marker != second.marker
        if any(name.startswith("copy") for name in pair):  # roofs are grey
            continue
        for sight in map(np.array, SIGHT.values()):
            gap = np.linalg.norm(lab(first.color, sight) - lab(second.color, sight))
            assert gap > 16, pair


def test_every_figure_of_the_sources_comes_first_in_their_order(recorded: list[Picture]) -> None:
    found = [picture.id for picture in recorded]
    assert list(dict.fromkeys(found))[: len(SOURCED + OURS)] == SOURCED + OURS
    assert {entry.id for entry in PACKED_ALONE} <= set(found)
    assert missing(recorded) == [D_FIG1_GPUS.needs]
    assert len({picture.page.name for picture in recorded}) == len(found)


def test_every_recorded_picture_fits_its_canvas(canvases: list[tuple[Picture, Canvas]]) -> None:
    each = {(one.id, one.page.title): (one, drawn) for one, drawn in canvases}
    for picture, canvas in each.values():
        assert len(picture.page.small) <= 3
        assert overhang(canvas) == [], picture.page.name


def test_what_cannot_be_drawn_says_what_it_needs_in_one_line(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [row("torch", n) for n in PAPER])
    drawn = list(pictures(Inputs(tmp_path, tmp_path, frame, Records(), {}), DRAWN))
    needs = [line.split(" needs ")[0] for line in missing(drawn, DRAWN)]
    assert {picture.id for picture in drawn} | set(needs) == {entry.id for entry in DRAWN}
    for entry in ENTRIES:
        assert entry.caption.endswith(".")
        assert entry.needs.startswith(f"{entry.id} needs ")
        assert "\n" not in entry.needs
