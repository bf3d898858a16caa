"""What holds for every figure of rows: the same bytes twice, gaps, roofs, what it tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.figures.specs import A_FIG2, D_FIG1
from analysis.figures.style import STYLES, size_label
from analysis.gallery import FIGURES, Entry
from analysis.load import Records
from tests.analysis.drawing import NARROW, VOCABULARY, draw, frame_of, lines, plates, words
from tests.analysis.plausible import PAPER, paper, row, unsupported

pytestmark = pytest.mark.usefixtures("small_pictures")
BATCHES = (1, 4, 16, 64, 512, 2048, 8192, 32768)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: str(figure.id))
def test_it_is_the_same_bytes_when_drawn_twice(tmp_path: Path, figure: Entry) -> None:
    kernels = ("naive", "torch", "fused_row", "copy")
    rows = [*paper(), *(row(k, n, dtype="float16") for k in kernels for n in PAPER)]
    rows += [row(k, n, rows=8192, dtype="float16") for k in kernels for n in VOCABULARY]
    rows += [row(k, 32000, rows=m, dtype="float16") for k in kernels for m in BATCHES]
    rows += [row("auto", n) for n in PAPER]
    if figure.id == "card_to_card":
        rows += [one.model_copy(update={"card": 1}) for one in rows]
    if figure.id == "d_fig1_gpus":
        other_kind = {"gpu": "NVIDIA A100-SXM4-80GB"}
        rows += [one.model_copy(update=other_kind | {"key": f"{one.key}-"}) for one in rows]
    frame = frame_of(tmp_path, rows)
    other = frame.sample(frac=1, random_state=1)
    [first], [second] = (figure.pages(Records(), f) for f in (frame, other))
    for one, two in zip(first.files(tmp_path / "1"), second.files(tmp_path / "2"), strict=True):
        of = "" if figure.id == "d_fig1_gpus" else "-nvidia-h200"
        by_timer = "-events" if figure.id.startswith("limits") else ""
        assert one.name == two.name == f"{figure.id}{of}{by_timer}{one.suffix}"
        assert one.read_bytes() == two.read_bytes()


def test_the_line_breaks_where_a_variant_is_unsupported(tmp_path: Path) -> None:
    fused = lines(draw(tmp_path, A_FIG2, paper()))["fused"]
    assert fused[:, 0].tolist() == list(PAPER)
    assert np.isfinite(fused[:, 1]).tolist() == [True] * 4 + [False] * 2


def test_a_point_above_the_roof_is_crossed_out_and_not_in_the_line(tmp_path: Path) -> None:
    rows = [row(k, n) for k in ("copy", "torch") for n in NARROW]
    rows += [row("fused", 256, time_us=1.0), *(row("fused", n) for n in NARROW[1:])]
    sheet = draw(tmp_path, D_FIG1, rows)
    drawn = lines(sheet)
    assert np.isnan(drawn["fused"][0, 1])
    assert np.isfinite(drawn["fused"][1:, 1]).all()
    assert drawn["above roof"][:, 0].tolist() == [256]
    assert "crossed out" in words(sheet)
    assert "crossed out" not in words(draw(tmp_path, D_FIG1, paper()))


def test_a_variant_keeps_its_colour_and_marker_whichever_others_are_there(tmp_path: Path) -> None:
    seen: dict[str, set[tuple[str, str]]] = {}
    for kernels in (("online", "my_kernel"), ("my_kernel", "torch"), (*STYLES, "my_kernel")):
        ax = draw(tmp_path, D_FIG1, [row(k, n) for k in kernels for n in NARROW]).axes[0]
        for line in ax.get_lines():
            look = (str(line.get_color()), str(line.get_marker()))
            seen.setdefault(str(line.get_label()), set()).add(look)
    assert seen["online"] == {(STYLES["online"].color, STYLES["online"].marker)}
    assert len(seen["my_kernel"]) == len(seen["torch"]) == 1


def test_axes_title_and_small_print_tell_what_was_measured_how(tmp_path: Path) -> None:
    sheet = draw(tmp_path, D_FIG1, paper(NARROW))
    ax = sheet.axes[0]
    assert ax.get_ylim()[0] == 0
    assert ax.get_xscale() == "log"
    ticks = [label.get_text() for label in ax.get_xticklabels()]
    assert ticks == ["256", "512", "1K", "2K", "4K", "8K"]
    for told in ("NVIDIA H200", "float32", "M = 4096", "events, cold", "torch 2.13.0",
                 "commit 0123456789ab", "rows "):  # fmt: skip
        assert told in words(sheet)


def test_roof_datasheet_and_l2_are_drawn_for_a_known_card_only(tmp_path: Path) -> None:
    sheet = draw(tmp_path, D_FIG1, paper(NARROW))
    assert set(lines(sheet)["datasheet peak"][:, 1]) == {4800.0}
    fits = [p for p in sheet.axes[0].patches if p.get_label() == "fits in L2"]
    edge = fits[0].get_extents().transformed(sheet.axes[0].transData.inverted()).x1
    assert edge == pytest.approx(60 * 2**20 / (2 * 4096 * 4))
    unknown = [row(k, n, gpu="Some Card") for k in ("copy", "torch") for n in NARROW]
    other = draw(tmp_path, D_FIG1, unknown)
    assert "datasheet peak" not in lines(other)
    assert not other.axes[0].patches
    assert np.isfinite(lines(other)["copy roof"]).all()


def test_no_width_is_shaded_where_none_fits_in_l2(tmp_path: Path) -> None:
    sheet = draw(tmp_path, D_FIG1, [row("torch", n) for n in (2048, 4096, 8192)])
    assert not sheet.axes[0].patches
    assert "fits in L2" not in words(sheet)


def test_the_roof_is_the_faster_copy_at_each_width(tmp_path: Path) -> None:
    rows = [row("torch", n) for n in (256, 512)]
    rows += [row("copy", 256, time_us=10.0), row("copy_triton", 256, time_us=8.0)]
    rows += [row("copy", 512, time_us=10.0), row("copy_triton", 512, time_us=16.0)]
    roof = lines(draw(tmp_path, A_FIG2, rows))["copy roof"]
    assert roof[:, 1].tolist() == [8.0, 10.0]


def test_the_interval_stands_on_every_point(tmp_path: Path) -> None:
    sheet = draw(tmp_path, D_FIG1, [row("torch", n, time_us=10.0) for n in (256, 512)])
    [bars] = sheet.axes[0].collections
    low, high = bars.get_paths()[0].vertices[:, 1]  # type: ignore[attr-defined]
    value = 2 * 4096 * 256 * 4 / 10.0 / 1e3
    assert (low, high) == pytest.approx((value / 1.01, value / 0.99))


def test_the_files_themselves_tell_card_protocol_commit_and_rows(tmp_path: Path) -> None:
    [plate] = plates(tmp_path, D_FIG1, paper(NARROW))
    for path in plate.files(tmp_path):
        told = path.read_bytes().replace("·".encode(), b"").replace("·".encode("latin-1"), b"")
        for fact in (b"NVIDIA H200", b"events, cold", b"commit 0123456789ab", b"rows "):
            assert fact in told


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: str(figure.id))
def test_it_says_what_it_shows_in_one_sentence_and_what_it_needs(figure: Entry) -> None:
    assert figure.caption.endswith(".")
    assert figure.needs.startswith(f"{figure.id} needs ")


def test_a_variant_that_ran_nowhere_is_not_drawn(tmp_path: Path) -> None:
    rows = [row("torch", n) for n in NARROW] + [unsupported("fused", n) for n in NARROW]
    assert "fused" not in lines(draw(tmp_path, D_FIG1, rows))


@pytest.mark.parametrize(
    ("size", "label"), [(256, "256"), (1024, "1K"), (2**18, "256K"), (781, "781")]
)
def test_sizes_are_written_as_the_field_writes_them(size: int, label: str) -> None:
    assert size_label(size) == label
