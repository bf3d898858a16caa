"""The gate: right answers of every dtype pass, and no wrong one does."""

import math
from itertools import product

import pytest
import torch

from experiments.worker import gate
from experiments.worker.gate import CheckResult, check
from experiments.worker.inputs import Values
from experiments.worker.machine import Machine
from experiments.worker.trial import Equipment
from kernels.cross_entropy.operation import CROSS_ENTROPY_GRAD, LOGPROB_ENTROPY
from kernels.device import Device
from kernels.kernel import Array, Operation
from kernels.roofs.operation import COPY
from kernels.softmax.operation import SOFTMAX
from kernels.traffic import M

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def random_input(m: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    return SOFTMAX.make_inputs((m, n), dtype, "cpu", 0)[0]


def answer(x: torch.Tensor) -> torch.Tensor:
    return SOFTMAX.reference(x).to(x.dtype)


@pytest.mark.parametrize(
    ("n", "dtype"),
    # of the last an answer is a few subnormal steps: only the row's sum shows that it is wrong
    [*product([1, 37, 3000], DTYPES), (1 << 22, torch.float16)],
)
def test_the_right_answer_passes_and_zeros_or_one_wrong_element_fail(
    n: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "CHUNK_ELEMENTS", 1 << 22 if n > 3000 else 60)  # a row at a time
    x = random_input(3 if n <= 3000 else 1, n, dtype)
    result = check(answer(x), x, SOFTMAX, "eager")
    assert (result.reason, result.relative_error is None) == (None, False)
    assert check(torch.zeros_like(x), x, SOFTMAX, "eager").reason is not None
    off = pytest.approx(0.25 * answer(x)[-1, n // 2].item(), rel=0.1)
    for factor, error in ((1.25, off), (math.nan, None), (math.inf, None)) if n <= 3000 else ():
        y = answer(x)
        y[-1, n // 2] *= factor
        result = check(y, x, SOFTMAX, "torch")
        assert f"1 of {3 * n} elements" in str(result.reason)
        assert result.max_abs_error == error


@pytest.mark.parametrize(
    ("backend", "dtype", "bits", "spacings"),
    [
        ("torch", torch.float32, torch.int32, 32),
        ("torch", torch.float64, torch.int64, 64),
        ("torch", torch.float16, torch.int16, 1),
        ("outside", torch.float16, torch.int16, 18),
    ],
)
def test_an_element_may_be_off_by_the_spacings_that_the_docs_name_and_no_more(
    backend: str, dtype: torch.dtype, bits: torch.dtype, spacings: int
) -> None:
    x = random_input(3, 40, dtype)
    x[1, 5] = 5  # most of its row, which the row's sum leaves out
    for off, wrong in ((spacings - 1, False), (spacings + 2, True)):
        y = answer(x)
        y.view(bits)[1, 5] += off
        assert (check(y, x, SOFTMAX, backend).reason is not None) is wrong, f"{off} spacings off"


def test_an_element_that_is_most_of_its_row_may_be_tipped_over_by_rounding() -> None:
    given = CROSS_ENTROPY_GRAD.make_inputs((3, 1001), torch.bfloat16, "cpu", 0)
    loss, exact = CROSS_ENTROPY_GRAD.reference(*given)
    gradient, row, target = exact.bfloat16(), 1, int(given[1][1])
    gradient[row, target] = torch.nextafter(gradient[row, target], torch.tensor(0.0).bfloat16())
    assert check((loss.float(), gradient), given, CROSS_ENTROPY_GRAD, "triton").reason is None
    above = torch.nextafter(gradient[row], torch.ones(1001).bfloat16())
    gradient[row] = above.where(gradient[row] < exact[row], gradient[row])  # never rounded down
    result = check((loss.float(), gradient), given, CROSS_ENTROPY_GRAD, "triton")
    assert "1 of 3 row sums are off" in str(result.reason)


def test_other_shapes_dtypes_a_biased_row_and_the_input_fail_and_a_copy_must_be_exact() -> None:
    x = random_input(2, 4096, torch.float16)
    low = torch.nextafter(answer(x), torch.zeros_like(x))  # each element within a spacing
    for given, wrong, said in (
        (SOFTMAX, answer(x).T, "returned (4096, 2)"),
        (SOFTMAX, answer(x).double(), "float64"),
        (SOFTMAX, low, "2 row sums are off"),
        (COPY, x, "own memory"),
        (COPY, torch.nextafter(x, x + 1), "8192 of 8192 elements differ"),
    ):
        assert said in str(check(wrong, x, given, "torch").reason)
    assert check(x.clone(), x, COPY, "torch").reason is None


def test_a_reference_of_another_shape_or_precision_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = random_input(2, 40, torch.float32)
    for reference in (lambda _, x: x.softmax(1), lambda _, x: x.double().softmax(1).sum(1)):
        monkeypatch.setattr(type(SOFTMAX), "reference", reference)
        found = check(x.softmax(1), x, SOFTMAX, "torch").reason
        assert str(found).startswith("the reference of softmax gave (2")


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_the_very_answer_that_passed_passes_without_being_computed_again(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "CHUNK_ELEMENTS", 16)
    equipment = Equipment(Machine("cpu", Device("cpu", "cpu", l2_bytes=64), {}))
    x = random_input(3, 17, dtype)

    def checked(y: torch.Tensor, backend: str = "torch", seed: int = 0) -> CheckResult:
        return equipment.check_once((y,), (x,), SOFTMAX, backend, Values((3, 17), dtype, seed))

    first = checked(answer(x))
    assert first.reason is None
    assert checked(answer(x)) is first
    assert checked(answer(x), backend="triton") is first  # whichever kernel gave it
    assert checked(answer(x), seed=1) is not first  # of other inputs
    if dtype is torch.float32:  # where a stranger's answer is held to the same tolerance
        assert checked(answer(x), backend="outside") is first
    for place in range(x.numel()):
        wrong = answer(x)
        wrong.view(-1)[place] *= -1
        assert "1 of 51 elements" in str(checked(wrong).reason)
    assert checked(answer(x).roll(1, 1)).reason is not None  # the same numbers in another order


def test_every_output_is_compared_in_its_own_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "CHUNK_ELEMENTS", 700)  # two rows at a time
    given = LOGPROB_ENTROPY.make_inputs((5, 300), torch.bfloat16, "cpu", 0)
    logprob, entropy = (y.float() for y in LOGPROB_ENTROPY.reference(*given))
    result = check((logprob, entropy), given, LOGPROB_ENTROPY, "torch")
    assert (result.reason, result.relative_error < 1e-5) == (None, True)  # type: ignore[operator]
    for answer, said in (
        ((logprob, entropy * 1.001), "entropy: 5 of 5 elements differ"),
        ((logprob, entropy + 1), "spacings; the largest error is 1"),
        ((logprob * torch.tensor([1, 1, 1, 1, torch.nan]), entropy), "spacings; it has NaN"),
        ((logprob.double(), entropy), "returned (5,) torch.float64, (5,) torch.float32 for (5,)"),
        (logprob, "returned (5,) torch.float32 for (5,) torch.float32, (5,) torch.float32"),
    ):
        assert said in str(check(answer, given, LOGPROB_ENTROPY, "torch").reason)

    class Best(Operation):  # whole numbers are right or wrong
        name = "best"
        outputs = (Array("y", (M,), torch.int64),)

        def reference(self, x: torch.Tensor) -> torch.Tensor:
            return x.argmax(1)

    off = given[0].argmax(1) + torch.tensor([0, 0, 0, 0, 1])
    assert check(given[0].argmax(1), given[0], Best(), "torch").reason is None
    assert "1 of 5 elements" in str(check(off, given[0], Best(), "torch").reason)
