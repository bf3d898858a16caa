"""Times against the cards' peaks."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analysis.audit import audit
from analysis.published import Series, Source
from tests.analysis.audit.planted import finding, source_with, verdict

quickly = settings(max_examples=25, deadline=None)

CACHE_MIB, PEAK = 50, 2000
ROWS, COLS = 4096, 65536  # 1 GiB of float32: far beyond any L2


def card(folder: Path, name: str, gbps: float, mib: float = CACHE_MIB) -> None:
    folder.mkdir(exist_ok=True)
    facts = {"memory_gbps": {"value": gbps, "source": "-"}, "l2_mib": {"value": mib, "source": "-"}}
    told = {"name": name, "match": f"^{name}$", "facts": facts}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")


def drawn(time_us: float, kernel: str = "fused", cols: int = COLS) -> dict[str, Source]:
    one = Series(
        figure="A-fig2", quantity="time_us", rows=ROWS, over="cols", sizes=(cols,),
        kernels={kernel: (time_us,)},
    )  # fmt: skip
    return source_with("A", series={"a_fig2": one})


@quickly
@given(
    share=st.floats(0.1, 10), passes=st.sampled_from([("fused", 2), ("online", 3), ("naive", 8)])
)
def test_a_time_is_impossible_exactly_where_its_bytes_pass_the_fastest_peak(
    share: float, passes: tuple[str, int]
) -> None:
    assume(abs(share - 1) > 0.01)
    kernel, matrices = passes
    bound = matrices * ROWS * COLS * 4 / 4800e9 * 1e6  # the H200's datasheet
    found = verdict(f"A-fig2 {kernel}, N = 65,536", drawn(round(bound * share), kernel))
    assert found == ("physically impossible" if share < 1 else "consistent")


def test_a_time_that_rounds_up_to_a_possible_one_is_possible(tmp_path: Path) -> None:
    card(tmp_path / "gpu", "Card", 2001)
    bound = 2 * ROWS * COLS * 4 / 2001 / 1e3
    subject = "A-fig2 fused, N = 65,536"
    printed = round(bound)
    assert printed < bound <= printed + 0.5  # it may stand for a time that is long enough
    assert verdict(subject, drawn(printed), cards=tmp_path / "gpu") == "consistent"
    early = verdict(subject, drawn(printed - 1), cards=tmp_path / "gpu")
    assert early == "physically impossible"


def test_other_cards_change_what_is_impossible(tmp_path: Path) -> None:
    slow, fast = tmp_path / "slow", tmp_path / "fast"
    card(slow, "Slow", 1000, 6)
    card(fast, "Slow", 1000, 6)
    card(fast, "Fast", 1e6, 6)
    impossible = {
        name: {one.subject for one in audit(cards=folder) if one.verdict == "physically impossible"}
        for name, folder in (("slow", slow), ("fast", fast))
    }
    assert "A-fig2 fused, every N" in impossible["slow"]
    assert "A6 fused, against the cards" in impossible["slow"]  # 1448 GB/s, and D's 1400
    assert not impossible["fast"]


def test_a_card_whose_cache_holds_both_matrices_is_no_limit(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    card(small, "Card", PEAK, 1)
    card(large, "Card", PEAK, 4096)
    subject = "A-fig2 fused, N = 65,536"
    assert verdict(subject, drawn(10), cards=small) == "physically impossible"
    assert verdict(subject, drawn(10), cards=large) == "consistent"


def test_a_cache_that_holds_one_matrix_spares_what_is_read_again(tmp_path: Path) -> None:
    card(tmp_path / "gpu", "Card", PEAK, 1025)  # MiB; a matrix is 1024
    compulsory = 2 * ROWS * COLS * 4 / PEAK / 1e3
    subject = "A-fig2 naive, N = 65,536"
    assert (
        verdict(subject, drawn(compulsory * 1.1, "naive"), cards=tmp_path / "gpu") == "consistent"
    )
    late = verdict(subject, drawn(compulsory * 0.9, "naive"), cards=tmp_path / "gpu")
    assert late == "physically impossible"


def test_the_reason_names_the_fastest_card_and_its_peak() -> None:
    why = finding("A-fig2 fused, N = 65,536", drawn(10)).why
    assert "NVIDIA H200" in why
    assert "4,800 GB/s" in why
