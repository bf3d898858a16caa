"""Rows of logits, what is wanted of them, and the variants that compute it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from typing_extensions import override

from ..kernel import Kernel, Tensors


@dataclass(frozen=True)
class Options:
    """The options of the loss logsumexp(z) − z[target], where z = cap(x) / temperature."""

    ignore_index: int = -100  # rows with this target have loss and gradient 0
    label_smoothing: float = 0.0  # the weight of the mean over all columns in the loss
    softcap: float = 0.0  # c of cap(x) = c·tanh(x / c); 0 for none
    temperature: float = 1.0  # divides the logits
    z_loss: float = 0.0  # factor of lse², which is added to the loss


PLAIN = Options()


class Call(NamedTuple):
    """Rows of logits, what else their results follow from, and memory for each wanted result.

    Results of one number per row are float32 (float64 for float64 logits), (M,) and contiguous;
    None is not written. A target out of range makes its row's loss, log-probability and gradient
    NaN.
    """

    # the logits, (M, N), float16, bfloat16, float32 or float64; any row and column stride
    x: torch.Tensor
    # (M,), int64, contiguous; for a loss, a log-probability, and their gradients
    target: torch.Tensor | None = None
    options: Options = PLAIN  # of the loss; the temperature applies to every result
    weight: torch.Tensor | None = None  # (N,), one weight per class
    weight_sum: torch.Tensor | None = None  # which `rows` fills in if smoothing needs it
    # gradient of the loss, of a floating dtype: (M,) of any stride, or one number for all rows;
    # None for ones
    dloss: torch.Tensor | None = None
    loss: torch.Tensor | None = None
    logprob: torch.Tensor | None = None  # log p[target]; with `entropy`
    entropy: torch.Tensor | None = None  # −Σ p·log p; not with `loss`
    lse: torch.Tensor | None = None  # logsumexp(z); with a loss 0 for an ignored row
    # (M, N), the gradient in the dtype of the logits; may be the logits
    dlogits: torch.Tensor | None = None
    y: torch.Tensor | None = None  # (M, N), log-softmax, likewise; not with `dlogits`
    # for `rows.backward`, (M,): the gradient of `logprob`, or without a target of `lse`
    dlogprob: torch.Tensor | None = None
    dentropy: torch.Tensor | None = None  # likewise of `entropy`
    block_size: int | None = None  # elements of a tile of wide rows; None decides by the width
    num_warps: int | None = None  # warps per program, likewise

    @property
    def kind(self) -> str:
        """``"loss"``, ``"numbers"`` (the entropy is among them), or ``"lse"``, without targets."""
        if any(each is not None for each in (self.entropy, self.dlogprob, self.dentropy)):
            return "numbers"
        return "lse" if self.loss is None and self.dlogits is None else "loss"

    @property
    def further(self) -> str:
        """How a further sum of a row is kept: added, weighted by exp(z − m), or not."""
        if self.kind == "loss" and self.options.label_smoothing:
            return "added"
        return "weighted" if self.kind == "numbers" else ""

    @property
    def of_target(self) -> torch.Tensor | None:
        """The loss, or the log-probability."""
        return self.logprob if self.loss is None else self.loss

    @property
    def matrix(self) -> torch.Tensor | None:
        """The gradient, or the log-softmax."""
        return self.y if self.dlogits is None else self.dlogits


class RowVariant(Kernel):
    """A kernel whose inputs and outputs bear the names of `Call`, but for the first input.

    Attributes:
        beside: Results of one float32 per row that are written too, for a gradient.
    """

    backend = "triton"
    beside: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def run(self, call: Call) -> None:
        """Writes all results for which a call has memory."""

    @override
    def __call__(self, x: torch.Tensor, *inputs: torch.Tensor | None) -> Tensors:
        names, outputs = (array.name for array in self.operation.inputs[1:]), self.operation.outputs
        layout = self.operation.layout(outputs, tuple(x.shape), x.dtype)
        made: dict[str, torch.Tensor] = {}
        for array, (size, dtype) in zip(outputs, layout, strict=True):
            over = self.overwrites is not None and array.name == "dlogits"
            made[array.name] = x if over else torch.empty(size, dtype=dtype, device=x.device)
        rows = {name: torch.empty(len(x), device=x.device) for name in self.beside}
        given: dict[str, Any] = {**dict(zip(names, inputs, strict=True)), **made, **rows}
        self.run(Call(x, **given))
        first, *others = made.values()
        return (first, *others) if others else first
