"""The steps between a public function and its kernels: `RowOp`, one record an operation.

A call takes the shortest of three ways, because each layer costs host time:

- A plain call launches kernels. If a gradient is needed, an autograd function keeps what the
  gradient takes. A call like an earlier one repeats its launches.
- `torch.compile` and `torch.export` see a PyTorch operator that launches the same kernels.
- Forward-mode differentiation, functorch's transforms, dispatch modes, `torch.jit.trace` and tensor
  subclasses get PyTorch's own operations: they would treat our operator as a constant.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Generic, TypeVar

import torch
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch._C import _is_tracing
from torch._C import _len_torch_dispatch_stack as _dispatch_modes
from torch.autograd import Function, forward_ad
from torch.compiler import is_dynamo_compiling

from .language import tl
from .repeat import Layout, alike, unlike

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
LEAST, MOST = 1e-30, 1e30  # temperatures that leave float32 neither zero nor infinity
KEPT = 4096  # kinds of calls that an operation remembers; some 2 kB each
STRIDES = 16  # layouts remembered of one such kind
# Triton decides so as it decorates, once
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
PLAIN = (torch.Tensor, torch.nn.Parameter)  # a subclass may mean something else by its elements
NAMESPACE = "softmax_roofline"
AUTOGRAD = torch._C.DispatchKey.AutogradFunctionality
_LIBRARIES: list[torch.library.Library] = []  # an operator lives as long as its library

Tensors = tuple[torch.Tensor, ...]


def watched(x: Any) -> bool:
    """Whether a call on ``x`` must not simply launch a kernel.

    True under compilation, tracing, transforms, dispatch modes and forward-mode differentiation;
    also for a subclass, a device without kernels, and a conjugated or negated view.
    """
    return (
        is_dynamo_compiling()  # first: Dynamo follows none of what comes after
        or type(x) not in PLAIN
        or not (x.is_cuda or (INTERPRETED and x.is_cpu))
        or x.is_neg()
        or forward_ad._current_level >= 0
        or _dispatch_modes() > 0
        or _transforms_active()
        or _is_tracing()
    )


def number(name: str, value: Any, least: float = LEAST, zero: bool = False) -> float:
    """Checks an option that is a number from ``least`` to 1e30, or 0 where ``zero``.

    Raises:
        TypeError, ValueError: it is no number, or out of range.
    """
    # where a call is compiled it may be symbolic, and no text can be made of it
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(_must_be(name, value, least, zero))
    if not (least <= value <= MOST or (zero and value == 0)):  # type: ignore[operator]
        raise ValueError(_must_be(name, value, least, zero))
    return float(value)


def _must_be(name: str, value: Any, least: float, zero: bool) -> str:
    wanted = f"{'0 for none, or ' if zero else ''}a number from {least:g} to {MOST:g}"
    return f"{name} must be {wanted}, not {value!r}"


def transformed() -> bool:
    """Whether forward-mode differentiation or a functorch transform is active."""
    return forward_ad._current_level >= 0 or _transforms_active()


def runs_on(x: torch.Tensor) -> bool:
    """Whether a kernel can run on the device of ``x``."""
    kind = x.device.type
    return tl is not None and (kind == "cuda" or (kind == "cpu" and INTERPRETED))


def plain_gradient(*grads: torch.Tensor | None) -> bool:
    """Whether a backward pass given these gradients may launch kernels on them."""
    return not (
        torch.is_grad_enabled()  # the gradient is to be differentiated in its turn
        or _dispatch_modes() > 0
        or transformed()
        or _is_tracing()
        or any(
            type(grad) is not torch.Tensor
            or grad.is_neg()
            or torch._C._functorch.is_legacy_batchedtensor(grad)  # autograd's own vmap
            for grad in grads
            if grad is not None
        )
    )


def gradient_of(
    function: Callable[[torch.Tensor], Tensors], x: torch.Tensor, grads: Sequence[torch.Tensor]
) -> torch.Tensor:
    """The gradient of ``x`` by PyTorch's operations, which can be differentiated again.

    Args:
        function: Computes the same answers by PyTorch's operations.
        x: The input of ``function``.
        grads: The gradient of each answer.
    """
    if _transforms_active():
        (dx,) = torch.func.vjp(function, x)[1](tuple(grads))
        return dx  # type: ignore[no-any-return]
    again = torch.is_grad_enabled()
    # an operator that has no kernel for its tensors asks from below autograd
    with torch._C._SetExcludeDispatchKeyGuard(AUTOGRAD, False), torch.enable_grad():
        x = x if x.requires_grad else x.detach().requires_grad_()
        (dx,) = torch.autograd.grad(function(x), x, tuple(grads), create_graph=again)
    return dx


def define(
    schema: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
    by_torch: Callable[..., Any],
    differentiable: Callable[..., Any] | None = None,
) -> Any:
    """Registers a PyTorch operator, for torch.compile and torch.export.

    PyTorch accepts one definition per name. If the module is imported twice (a checkout beside the
    installed package, or a reload), the operator of the first import stays.

    Args:
        schema: From the operator's name on.
        kernel: Computes the answers on a CPU or GPU; they share no memory with the inputs.
        fake: Returns empty answers of the right shape and dtype.
        by_torch: Computes the answers by PyTorch's operations, for transforms such as vmap.
        differentiable: Computes the answers where the first tensor needs a gradient; without it,
            ``by_torch`` does.
    """
    name = schema.partition("(")[0]
    operators = getattr(torch.ops, NAMESPACE)

    def autograd(*arguments: Any) -> Any:
        tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
        if transformed():
            return by_torch(*arguments)
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
            alone = differentiable is not None and not any(t.requires_grad for t in tensors[1:])
            return differentiable(*arguments) if alone else by_torch(*arguments)  # type: ignore[misc]
        return _below_autograd(getattr(operators, name).default, *arguments)

    if not hasattr(operators, name):
        library = torch.library.Library(NAMESPACE, "FRAGMENT")
        library.define(schema, tags=torch.Tag.pt2_compliant_tag)
        for key in ("CPU", "CUDA"):
            library.impl(name, kernel, key)
        library.impl(name, autograd, "Autograd")
        library.impl(name, by_torch, "FuncTorchBatched")
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
        _LIBRARIES.append(library)
    return getattr(operators, name).default


class Plan:
    """How kernels compute an operation and its gradient for tensors of one layout.

    Args:
        op: The operation.
        options: Its options, as its gradient takes them.
        call: Computes the operation's answers, the first ones for the caller, the others kept for
            the gradient; what follows them nobody looks at.
        gradient: The gradient of the first tensor, from what `RowOp.saved` returned and the
            gradients of the caller's answers.
        alone: Computes the caller's answers where no gradient is needed; None takes ``call``.
        shown: The number of the caller's answers.

    Attributes:
        direct: Whether the functions take the tensors themselves, or as `RowOp.arranged` has them.
        like: The test that `alike` made from the tensors of an earlier gradient.
    """

    def __init__(
        self,
        op: RowOp[Any],
        options: Sequence[Any],
        call: Callable[..., Sequence[torch.Tensor]],
        gradient: Callable[..., torch.Tensor],
        *,
        alone: Callable[..., Sequence[torch.Tensor]] | None = None,
        shown: int = 1,
    ) -> None:
        self.op, self.options, self.call, self.gradient = op, options, call, gradient
        self.alone, self.shown, self.direct = alone or call, shown, True
        self.like: Callable[..., bool | None] = unlike


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, eq=False)
class RowOp(Generic[P]):
    """An operation on rows: all that the ways of a call need to know of it.

    Trailing tensors that are None are left out of ``tensors``.

    Attributes:
        schema: Of its PyTorch operator: tensors, then options.
        plan_of: The plan for tensors and options, None where PyTorch's operations compute them.
        fake: Empty answers, for tensors and options.
        by_torch: The answers by PyTorch's operations.
        saved: What the gradient takes, from the tensors and the answers.
        gradient: The gradient of the first tensor, an operator or a function of PyTorch's: takes
            what is saved, a gradient or None for each of the first ``differentiable`` answers, and
            the options.
        gradient_by_torch: The same by PyTorch's operations, which can be differentiated again.
        differentiable: The number of answers that have a gradient.
        arranged: The tensors in a layout that kernels take.
        gradient_options: The options that the gradient takes, from the first tensor and options.
        inputs: The number of tensors in the schema.
        answers: The number of answers in the schema.
        operator: The registered operator.
    """

    schema: str
    plan_of: Callable[..., P | None]
    fake: Callable[..., Any]
    by_torch: Callable[..., Any]
    saved: Callable[[Tensors, Sequence[torch.Tensor]], Sequence[torch.Tensor | None]]
    gradient: Callable[..., torch.Tensor]
    gradient_by_torch: Callable[..., torch.Tensor]
    differentiable: int = 1
    arranged: Callable[..., Tensors] = lambda *tensors: tensors
    gradient_options: Callable[..., Sequence[Any]] = lambda x, *options: options
    inputs: int = field(init=False)
    answers: int = field(init=False)
    operator: Any = field(init=False)
    # By the facts that are cheapest to read; the test that `alike` made compares the rest
    _plans: dict[Any, list[tuple[Callable[..., bool | None], P]]] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        given, _, made = self.schema.partition("->")
        object.__setattr__(self, "inputs", given.count("Tensor"))
        object.__setattr__(self, "answers", made.count("Tensor"))
        operator = define(self.schema, self._kernel, self.fake, self.by_torch, self._traced)
        object.__setattr__(self, "operator", operator)

    def recall(self, tensors: Tensors, options: tuple[Any, ...]) -> P | None:
        """The plan of an earlier call like this one, which nothing observes; else None.

        Options are compared by ==: the caller tells True, 1 and 1.0 apart.
        """
        x = tensors[0]
        if is_dynamo_compiling() or type(x) not in PLAIN or forward_ad._current_level >= 0:
            return None
        try:
            known = self._plans.get((x.shape, len(tensors), options), ())
        except (RuntimeError, TypeError):  # nested tensors have no shape, symbolic ones no hash
            return None
        for like, plan in known:
            if like(*tensors):
                return plan
        return None

    def plan(self, tensors: Tensors, options: tuple[Any, ...]) -> P | None:
        """The plan for checked options, remembered; None where PyTorch's operations compute."""
        plan = self.recall(tensors, options)
        if plan is None and (plan := self.plan_of(*tensors, *options)) is not None:
            if len(self._plans) >= KEPT:
                self._plans.clear()
            known = self._plans.setdefault((tensors[0].shape, len(tensors), options), [])
            if len(known) >= STRIDES:
                known.clear()
            known.append((alike(*tensors), plan))
        return plan

    def _traced(self, *arguments: Any) -> Any:
        """The operator where the first tensor needs a gradient."""
        return _traced(self, arguments[self.inputs :], *arguments[: self.inputs])

    def _kernel(self, *arguments: Any) -> Any:
        """The operator on real tensors."""
        plan, tensors = None, _given(arguments[: self.inputs])
        if runs_on(tensors[0]):
            plan = self.plan(tensors, arguments[self.inputs :])
        if plan is None:
            return self.by_torch(*arguments)
        made = plan.call(*(tensors if plan.direct else self.arranged(*tensors)))
        none = [made[0].new_empty(0) for _ in range(self.answers - len(made))]
        return made[0] if self.answers == 1 else (*made[: self.answers], *none)


def _given(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """The tensors up to the last that is not None."""
    count = max(i + 1 for i, each in enumerate(tensors) if each is not None)
    return tuple(tensors[:count])


def run(plan: Plan, *tensors: torch.Tensor) -> Any:
    """The answers of a call that nothing observes, one tensor or a tuple."""
    if not plan.direct:
        tensors = plan.op.arranged(*tensors)
    if tensors[0].requires_grad and torch.is_grad_enabled():
        return _differentiable(plan, *tensors)
    made = plan.alone(*tensors)
    return made[0] if plan.shown == 1 else tuple(made[: plan.shown])


class _Planned(Function):
    """An operation and its gradient by kernels."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, *tensors: torch.Tensor) -> Any:
        made = plan.call(*tensors)
        ctx.plan, ctx.inputs = plan, len(tensors)
        ctx.save_for_backward(*plan.op.saved(tensors, made))
        if plan.shown == 1:
            return made[0]
        ctx.set_materialize_grads(False)
        return tuple(made[: plan.shown])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        plan, saved, dx = ctx.plan, ctx.saved_tensors, None
        op = plan.op
        # where gradients are enabled, this one is to be differentiated in its turn
        if not (
            is_dynamo_compiling()
            or torch.is_grad_enabled()
            or forward_ad._current_level >= 0
            or not plan.like(saved[0], *grads)
        ):
            dx = plan.gradient(*saved, *grads)
        elif any(each is not None for each in grads):
            none = (None,) * (op.differentiable - len(grads))
            if is_dynamo_compiling():
                dx = op.gradient(*saved, *grads, *none, *plan.options)
            elif not plain_gradient(*grads):
                dx = op.gradient_by_torch(*saved, *grads, *none, *plan.options)
            else:
                there = [each for each in grads if each is not None]
                if len(there) == len(grads):
                    plan.like = alike(saved[0], *there)
                dx = plan.gradient(*saved, *grads)
        return None, dx, *(None,) * (ctx.inputs - 1)


class _Traced(Function):
    """An operation and its gradient by the operators, which a compiler traces."""

    @staticmethod
    def forward(ctx: Any, op: RowOp[Any], options: Sequence[Any], *tensors: torch.Tensor) -> Any:
        made = _below_autograd(op.operator, *tensors, *options)
        answers = made if op.answers > 1 else (made,)
        ctx.op, ctx.options = op, op.gradient_options(tensors[0], *options)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*answers[op.differentiable :])
        ctx.save_for_backward(*op.saved(_given(tensors), answers))
        return made

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        op, dx = ctx.op, None
        grads = grads[: op.differentiable]
        if any(each is not None for each in grads):
            dx = op.gradient(*ctx.saved_tensors, *grads, *ctx.options)
        return None, None, dx, *(None,) * (op.inputs - 1)


def _below_autograd(operator: Callable[..., Any], *arguments: Any) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


# Past PyTorch's own layers in Python: one looks for functorch's wrappers, which callers have ruled
# out, 2 µs, the other for the function that computes the gradient, which is known
_differentiable: Callable[..., Any] = super(Function, _Planned).apply
_traced: Callable[..., Any] = super(Function, _Traced).apply
_Planned._backward_cls.apply = _Planned.backward  # type: ignore[attr-defined]


def like_rows(x: torch.Tensor) -> torch.Tensor:
    """Memory for the gradient of ``x``, see `padded_like`."""
    shape, strides, dtype = padded_like(x)
    return torch.empty_strided(shape, strides, dtype=dtype, device=x.device)


def padded_like(x: torch.Tensor) -> Layout:
    """The layout of the gradient of ``x`` (M, N), padded like ``x`` if the padding is small.

    Then rows of both start at the same offset within a vector, and both use 16-byte accesses.
    """
    rows, cols = x.shape
    stride = x.stride(0)
    gaps = stride if cols <= stride <= cols + cols // 8 else cols
    return (rows, cols), (gaps, 1), x.dtype


def same_layouts(first: Tensors, second: Tensors) -> bool:
    """Whether tensors have the same shapes, strides and dtypes."""
    layouts = ([(x.shape, x.stride(), x.dtype) for x in tensors] for tensors in (first, second))
    return next(layouts) == next(layouts)
