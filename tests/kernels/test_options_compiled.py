"""A compiled function whose option changes from call to call gives what it gives uncompiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from kernels.cross_entropy.functions import cross_entropy
from kernels.functions import softmax
from kernels.log_softmax.functions import log_softmax, logprob_entropy, logsumexp

Answer = torch.Tensor | tuple[torch.Tensor, ...]
ROWS, COLS = 6, 37
# For each public function the values that an option takes, one call after another
OPTIONS: dict[str, tuple[Callable[..., Answer], list[Any]]] = {
    "softmax temperature": (lambda x, t, v: softmax(x, temperature=v), [1.0, 0.7, 3]),
    "softmax dim": (lambda x, t, v: softmax(x, v), [-1, 0]),
    "softmax dtype": (lambda x, t, v: softmax(x, dtype=v), [None, torch.float64, torch.float16]),
    "log_softmax dim": (lambda x, t, v: log_softmax(x, v), [-1, 0]),
    "log_softmax dtype": (lambda x, t, v: log_softmax(x, dtype=v), [None, torch.float64]),
    "logsumexp dim": (lambda x, t, v: logsumexp(x, v), [-1, 0]),
    "logsumexp keepdim": (lambda x, t, v: logsumexp(x, 1, v), [False, True]),
    "entropy temperature": (lambda x, t, v: logprob_entropy(x, t, temperature=v), [1.0, 0.7, 2]),
    "ignore_index": (lambda x, t, v: cross_entropy(x, t, ignore_index=v), [-100, 3, 5]),
    "reduction": (lambda x, t, v: cross_entropy(x, t, reduction=v), ["mean", "sum", "none"]),
    "label_smoothing": (lambda x, t, v: cross_entropy(x, t, label_smoothing=v), [0.0, 0.1, 0.3]),
    "z_loss": (lambda x, t, v: cross_entropy(x, t, None, -100, "sum", z_loss=v), [0.0, 1e-3, 0.1]),
    "softcap": (lambda x, t, v: cross_entropy(x, t, softcap=v), [0.0, 5.0, 30.0]),
    "temperature": (lambda x, t, v: cross_entropy(x, t, temperature=v), [1.0, 0.7, 2.5]),
    "dtype": (lambda x, t, v: cross_entropy(x, t, dtype=v), [None, torch.float64]),
    "dim": (
        lambda x, t, v: cross_entropy(x.mT[None] if v == 1 else x[None], t[None], dim=v),
        [1, 2],
    ),
    "inplace": (lambda x, t, v: cross_entropy(x * 1, t, inplace=v), [False, True]),
}


def summed(answer: Answer) -> torch.Tensor:
    """A number that has a gradient of each tensor: of a softmax, one that is not zero."""
    several = answer if isinstance(answer, tuple) else (answer,)
    return torch.stack([one.double().square().sum() for one in several]).sum()


@pytest.fixture(autouse=True)
def _recompiles() -> Iterator[None]:
    """Past its limit a function would silently run uncompiled: then it is an error."""
    with torch._dynamo.config.patch(recompile_limit=64, fail_on_recompile_limit_hit=True):
        yield


WAYS = [
    *((None, "eager"), (True, "aot_eager")),
    *(pytest.param(dynamic, "inductor", marks=pytest.mark.gpu) for dynamic in (None, True)),
]


@pytest.mark.parametrize(("dynamic", "backend"), WAYS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_changes(
    option: str, dynamic: bool | None, backend: str, device: str
) -> None:
    function, values = OPTIONS[option]
    torch.manual_seed(0)
    x = torch.randn(ROWS, COLS, device=device, requires_grad=True)
    target = torch.randint(COLS, (ROWS,), device=device)
    target[0] = 3
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend=backend)
    for value in values:
        found, expected = (call(x, target, value) for call in (compiled, function))
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(summed(answer), x) for answer in (found, expected)]
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.gpu)])
def test_pytorchs_samples(device: str, backend: str) -> None:
    """PyTorch's own samples of cross_entropy, compiled by one function.

    What PyTorch's own function, compiled alike, refuses, ours may refuse too: PyTorch 2.11 does so
    for probabilities as targets where the number of weights or the ignored index is symbolic.
    """
    pytest.importorskip("expecttest", reason="PyTorch's own samples need expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    [info] = [one for one in op_db if one.name == "nn.functional.cross_entropy"]
    torch.compiler.reset()
    settings: dict[str, Any] = {"fullgraph": True, "dynamic": True, "backend": backend}
    known: dict[tuple[str, ...], list[Callable[..., torch.Tensor]]] = {}
    count = 0
    for sample in info.sample_inputs(device, torch.float32, requires_grad=True):
        names = tuple(sorted(sample.kwargs))
        if names not in known:
            both = (cross_entropy, torch.nn.functional.cross_entropy)
            known[names] = [torch.compile(one, **settings) for one in both]
        compiled, pytorchs = known[names]
        arguments = (sample.input, *sample.args)
        expected = torch.nn.functional.cross_entropy(*arguments, **sample.kwargs)
        try:
            found = compiled(*arguments, **sample.kwargs)
        except torch._dynamo.exc.TorchRuntimeError as ours:
            reason = re.escape(str(ours).splitlines()[0])
            with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match=reason):
                pytorchs(*arguments, **sample.kwargs)
            continue
        torch.testing.assert_close(found, expected)
        count += 1
    assert count > 15
