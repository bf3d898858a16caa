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
from typing import Any

import torch
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch._C import _is_tracing
from torch._C import _len_torch_dispatch_stack as _dispatch_modes
from torch.autograd import Function, forward_ad
from torch.compiler import is_dynamo_compiling

from .language import tl
from .repeat import TensorSpec, alike, repeatable, unlike

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
LEAST_OPTION, MOST_OPTION = 1e-30, 1e30  # such temperatures leave float32 neither zero nor infinity
MOST_PLANS = 4096  # kinds of calls that an operation remembers; some 2 kB each
STRIDES = 16  # layouts remembered of one such kind
# Triton decides so as it decorates, once
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)  # a subclass may give elements another meaning
NAMESPACE = "softmax_roofline"
AUTOGRAD = torch._C.DispatchKey.AutogradFunctionality
_LIBRARIES: list[torch.library.Library] = []  # an operator lives as long as its library

Tensors = tuple[torch.Tensor, ...]
Maybe = torch.Tensor | None


def watched(x: Any) -> bool:
    """Whether a call on ``x`` must not simply launch a kernel.

    True under compilation, tracing, transforms, dispatch modes and forward-mode differentiation;
    also for a subclass, a device without kernels, and a nested, batched, conjugated or negated
    tensor.
    """
    return (
        is_dynamo_compiling()  # first: Dynamo follows none of what comes after
        or type(x) not in TENSOR_TYPES
        or not (x.is_cuda or (INTERPRETED and x.is_cpu))
        or x.is_neg()
        or x.is_nested
        or torch._C._functorch.is_legacy_batchedtensor(x)  # autograd's own vmap
        or _dispatch_modes() > 0
        or transformed()
        or _is_tracing()
    )


def transformed() -> bool:
    """Whether forward-mode differentiation or a functorch transform is active."""
    return forward_ad._current_level >= 0 or _transforms_active()


def runs_on(x: Any) -> bool:
    """Whether a kernel can run on the device of ``x``."""
    kind = x.device.type
    return tl is not None and (kind == "cuda" or (kind == "cpu" and INTERPRETED))


def number(name: str, value: Any, least: float = LEAST_OPTION, zero: bool = False) -> float:
    """Checks an option that is a number from ``least`` to 1e30, or 0 where ``zero``.

    Raises:
        TypeError, ValueError: it is no number, or out of range.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    # where a call is compiled it may be symbolic, and no text can be made of it
    if real and (least <= value <= MOST_OPTION or (zero and value == 0)):
        return float(value)
    wanted = f"{'0 for none, or ' if zero else ''}a number from {least:g} to {MOST_OPTION:g}"
    raise (ValueError if real else TypeError)(f"{name} must be {wanted}, not {value!r}")


def check_types(call: str, kind: type, **given: Any) -> None:
    """Checks that arguments have a type, as PyTorch's own functions do.

    Raises:
        TypeError: one has another.
    """
    for name, value in given.items():
        if not isinstance(value, kind):
            wrong = type(value).__name__
            raise TypeError(f"{call}(): argument '{name}' must be {kind.__name__}, not {wrong}")


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """``x`` as (M, N), rows of adjacent elements; copied where it is not so in memory."""
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 or rows.shape[1] == 1 else rows.contiguous()


def gradient_of(
    function: Callable[[torch.Tensor], Tensors], x: torch.Tensor, grads: Sequence[torch.Tensor]
) -> torch.Tensor:
    """The gradient of ``x`` from those of a function's answers, which can be differentiated again.

    The function computes the answers by PyTorch's operations.
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


@dataclass(slots=True, eq=False)
class CallPlan:
    """How kernels compute an operation for tensors of one layout."""

    op: RowOp
    options: tuple[Any, ...]  # as its gradient takes them
    call: Callable[..., Sequence[Any]]  # all answers from rows; those for the caller come first
    alone: Callable[..., Sequence[Any]]  # the caller's from the tensors, without a gradient
    shown: int  # the number of the caller's answers
    work: Any = None  # launches the kernels; None where an operator does
    direct: bool = True  # whether the tensors are rows already, or `RowOp.arranged` makes them
    shape: Sequence[int] | None = None  # of the caller's answers, where `call` gives another
    # The test that `alike` made from the tensors of an earlier gradient, and what computed that:
    # one attribute, as threads may share a plan
    gradient: tuple[Callable[..., bool | None], Callable[..., Any]] = unlike, unlike


@dataclass(eq=False)
class RowOp:
    """An operation on rows: all that the ways of a call need to know of it.

    Its functions take the tensors of the schema, None for one that is not given, then the options.
    The caller gets as many answers as there are tensors, at most ``differentiable``.

    Attributes:
        schema: Of its PyTorch operator: tensors, then options.
        checked: The options as kernels take them; None where PyTorch's operations compute. Raises
            where an argument is wrong.
        answers: The spec of each answer, the caller's first, then those kept for the gradient.
        work: Returns a function that launches kernels on the tensors and on memory for the answers.
        by_torch: The caller's answers by PyTorch's operations, for any arguments.
        arranged: The tensors in a layout that kernels take; None where they take any.
        shape: The shape of a caller's answer if it differs where tensors are arranged, else None.
            If there is this function, the operator takes arranged tensors only.
        gradient: Computes the gradient of the first tensor; None if this operation is a gradient.
            It takes what is saved, a gradient or None for each of the first ``differentiable``
            answers, and options.
        saved: What the gradient takes, from the tensors and the answers.
        gradient_options: The options that the gradient takes, from the first tensor and options.
        differentiable: The number of answers that have a gradient.
        inputs: The number of tensors in the schema.
        outputs: The number of answers in the schema.
        operator: The registered operator.
    """

    schema: str
    checked: Callable[..., tuple[Any, ...] | None]
    answers: Callable[..., Sequence[TensorSpec]]
    work: Callable[..., Callable[..., None]]
    by_torch: Callable[..., Any]
    arranged: Callable[..., Sequence[Maybe]] | None = None
    shape: Callable[..., Sequence[int] | None] | None = None
    gradient: RowOp | None = None
    saved: Callable[[Sequence[Any], Sequence[Any]], Sequence[Maybe]] = lambda _, answers: answers
    gradient_options: Callable[..., tuple[Any, ...]] = lambda x, *options: options
    differentiable: int = 1
    inputs: int = field(init=False)
    outputs: int = field(init=False)
    operator: Any = field(init=False)
    # By the facts that are cheapest to read; the test that `alike` made compares the rest
    _plans: dict[Any, list[tuple[Callable[..., bool | None], CallPlan]]] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        """Registers the operator, for torch.compile and torch.export.

        PyTorch accepts one definition per name. If the module is imported twice (a checkout beside
        the installed package, or a reload), the operator of the first import stays.
        """
        given, _, made = self.schema.partition("->")
        name, operators = given.partition("(")[0], getattr(torch.ops, NAMESPACE)
        self.inputs, self.outputs = given.count("Tensor"), made.count("Tensor")
        if not hasattr(operators, name):
            library = torch.library.Library(NAMESPACE, "FRAGMENT")
            library.define(self.schema, tags=torch.Tag.pt2_compliant_tag)
            for key in ("CPU", "CUDA"):
                library.impl(name, self._kernel, key)
            library.impl(name, self._autograd, "Autograd")
            library.impl(name, self._by_torch, "FuncTorchBatched")
            torch.library.register_fake(f"{NAMESPACE}::{name}", self._fake, lib=library)
            _LIBRARIES.append(library)
        self.operator = getattr(operators, name).default

    def run(self, tensors: Tensors, options: tuple[Any, ...]) -> Any:
        """The caller's answers, one tensor or a tuple.

        Options are compared by ==: the caller tells True, 1 and 1.0 apart.

        Args:
            tensors: Those of the schema up to the last that is not None.
            options: Those of the schema, to be checked.
        """
        x, plan = tensors[0], None
        if not (is_dynamo_compiling() or forward_ad._current_level >= 0 or _dispatch_modes() > 0):
            try:
                for like, known in self._plans.get((x.shape, len(tensors), options), ()):
                    if like(*tensors):
                        plan = known
                        break
            except (AttributeError, RuntimeError, TypeError):  # no shape, or one without a hash
                pass
        if plan is None and (plan := self.plan(tensors, options)) is None:
            return self._unplanned(tensors, options)
        if x.requires_grad and torch.is_grad_enabled():
            rows = tensors if plan.direct else self.rows(tensors, options)
            made = _differentiable(plan, *rows)
        else:
            made = plan.alone(*tensors)
            made = made[0] if plan.shown == 1 else tuple(made)
        return made if plan.shape is None else _shaped(made, plan.shape)

    def rows(self, tensors: Sequence[Any], options: Sequence[Any]) -> Sequence[Any]:
        """The tensors in a layout that kernels take."""
        if self.arranged is None:
            return tensors
        return _given(self.arranged(*self._padded(tensors), *options))

    def plan(self, tensors: Sequence[Any], options: tuple[Any, ...]) -> CallPlan | None:
        """The plan for a call, remembered; None where it may not simply launch kernels."""
        there = [each for each in tensors if each is not None]
        # PyTorch differentiates in another tensor than the first, and a gradient again
        asked = torch.is_grad_enabled() or self.gradient is not None
        if any(map(watched, there)) or (
            asked and _need_gradients(there[1:] if self.gradient else there)
        ):
            return None
        return self._plan(tensors, options)

    def _plan(self, tensors: Sequence[Any], options: tuple[Any, ...]) -> CallPlan | None:
        there = [each for each in tensors if each is not None]
        # of tensors that are all given, as in `run`
        kind = len(there) if len(there) == len(tensors) else tuple(t is None for t in tensors)
        key = there[0].shape, kind, options
        for like, plan in self._plans.get(key, ()):
            if like(*there):
                return plan
        given = self._padded(tensors)
        final = self.checked(*given, *options)
        if final is None:
            return None
        plan = self._planned(tensors, given, final)
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        known = self._plans.setdefault(key, [])
        if len(known) >= STRIDES:
            known.clear()
        known.append((alike(*there), plan))
        return plan

    def _planned(self, tensors: Sequence[Any], given: Sequence[Any], options: Any) -> CallPlan:
        rows = self.rows(tensors, options)
        padded, direct = self._padded(rows), all(map(_same_spec, rows, tensors))
        specs, shown = self.answers(*padded, *options), min(len(tensors), self.differentiable)
        work, index, count = self.work(*padded, *options), rows[0].get_device(), len(rows)
        none = padded[count:]

        def launch(*given: Any) -> None:
            work(*given[:count], *none, *given[count:])

        alone: Callable[..., Any] = repeatable(launch, index, *specs[:shown])
        of_rows = alone
        if not direct:
            alone = lambda *tensors: of_rows(*self.rows(tensors, options))  # noqa: E731
        return CallPlan(
            op=self,
            options=self.gradient_options(given[0], *options),
            call=repeatable(launch, index, *specs),
            alone=alone,
            shown=shown,
            work=work,
            direct=direct,
            shape=None if direct or not self.shape else self.shape(*given, *options),
        )

    def _unplanned(self, tensors: Tensors, options: tuple[Any, ...]) -> Any:
        """The caller's answers by the operator in a compiler, else by PyTorch's operations."""
        given = self._padded(tensors)
        compiled = torch.compiler.is_compiling() and runs_on(tensors[0])
        final = None
        if compiled and not _need_gradients(tensors[1:]):
            final = self.checked(*given, *options)
        if final is None:
            return self.by_torch(*given, *options)
        if self.shape is None:
            return self.operator(*given, *final)
        made = self.operator(*self._padded(self.rows(tensors, final)), *final)
        shown, shape = min(len(tensors), self.differentiable), self.shape(*given, *final)
        if self.outputs > 1:
            made = made[0] if shown == 1 else made[:shown]
        return _shaped(made, shape)

    def _padded(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        return (*tensors, *(None,) * (self.inputs - len(tensors)))

    # --- the operator ---

    def _packed(self, made: Sequence[torch.Tensor]) -> Any:
        """The operator's answers; those that a call does not have are empty."""
        if self.outputs == 1:
            return made[0]
        return (*made, *(made[0].new_empty(0) for _ in range(self.outputs - len(made))))

    def _fake(self, x: torch.Tensor, *rest: Any) -> Any:
        return self._packed([_empty(spec, x) for spec in self.answers(x, *rest)])

    def _by_torch(self, x: torch.Tensor, *rest: Any) -> Any:
        made = self.by_torch(x, *rest)
        made = made if isinstance(made, tuple) else (made,)
        kept = self.answers(x, *rest)[len(made) :]  # PyTorch's gradient does not read it
        return self._packed([*made, *(_empty(spec, x).zero_() for spec in kept)])

    def _kernel(self, *arguments: Any) -> Any:
        tensors, options = _given(arguments[: self.inputs]), arguments[self.inputs :]
        plan = self._plan(tensors, options) if runs_on(tensors[0]) else None
        if plan is None:
            return self._by_torch(*arguments)
        return self._packed(plan.call(*(tensors if plan.direct else self.rows(tensors, options))))

    def _autograd(self, *arguments: Any) -> Any:
        tensors, options = arguments[: self.inputs], arguments[self.inputs :]
        needed = torch.is_grad_enabled() and _need_gradients(tensors)
        other = needed and (self.gradient is None or _need_gradients(tensors[1:]))
        if other or transformed():
            return self._by_torch(*arguments)

        def below(*tensors: Any) -> tuple[torch.Tensor, ...]:
            with torch._C._AutoDispatchBelowAutograd():
                made = self.operator(*tensors, *options)
            return made if isinstance(made, tuple) else (made,)

        if not needed:
            return self._packed(below(*tensors))
        of_gradient = self.gradient_options(tensors[0], *options)
        return _differentiable(CallPlan(self, of_gradient, below, below, self.outputs), *tensors)


class _Differentiable(Function):
    """An operation and its gradient, by kernels or by the operators that a compiler traces."""

    @staticmethod
    def forward(ctx: Any, plan: CallPlan, *tensors: torch.Tensor) -> Any:
        made = plan.call(*tensors)
        ctx.plan = plan
        ctx.save_for_backward(*plan.op.saved(tensors, made))
        if plan.shown == 1:
            return made[0]
        ctx.set_materialize_grads(False)
        if plan.work is None:
            ctx.mark_non_differentiable(*made[plan.op.differentiable :])
        return tuple(made[: plan.shown])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        plan, saved = ctx.plan, ctx.saved_tensors
        like, again = plan.gradient
        if (
            is_dynamo_compiling()
            or torch.is_grad_enabled()
            or forward_ad._current_level >= 0
            or _dispatch_modes() > 0
            or not like(saved[0], *grads)
        ):
            dx = _gradient(plan, saved, grads[: plan.op.differentiable])
        else:
            dx = again(*saved, *grads)[0]
        return None, dx, None, None  # PyTorch leaves out what is too many


def _gradient(plan: CallPlan, saved: Tensors, grads: Sequence[Maybe]) -> Maybe:
    """The gradient of a call, the first time or where anything observes it."""
    gradient, there = plan.op.gradient, [each for each in grads if each is not None]
    if not there:
        return None
    given = (*saved, *grads, *(None,) * (plan.op.differentiable - len(grads)))
    assert gradient is not None
    if plan.work is None or is_dynamo_compiling():
        dx = gradient.operator(*given, *plan.options)
    elif (found := gradient.plan(_given(given), plan.options)) is None:
        dx = gradient.by_torch(*given, *plan.options)
    else:
        if len(there) == len(grads):
            plan.gradient = alike(saved[0], *there), found.alone
        (dx,) = found.alone(*_given(given))
    return dx  # type: ignore[no-any-return]


# Past PyTorch's own layers in Python: one looks for functorch's wrappers, which callers have ruled
# out, 2 µs, the other for the function that computes the gradient, which is known
_differentiable: Callable[..., Any] = super(Function, _Differentiable).apply
_Differentiable._backward_cls.apply = _Differentiable.backward  # type: ignore[attr-defined]


def _given(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """The tensors up to the last that is not None."""
    count = len(tensors)
    while tensors[count - 1] is None:
        count -= 1
    return tuple(tensors[:count])


def _need_gradients(tensors: Sequence[Any]) -> bool:
    return any(isinstance(each, torch.Tensor) and each.requires_grad for each in tensors)


def _empty(spec: TensorSpec, x: torch.Tensor) -> torch.Tensor:
    shape, strides, dtype = spec
    return torch.empty_strided(shape, strides, dtype=dtype, device=x.device)


def _shaped(made: Any, shape: Sequence[int] | None) -> Any:
    if isinstance(made, torch.Tensor):
        return made if shape is None else made.view(shape)
    return tuple(_shaped(each, shape) for each in made)


def _same_spec(x: Maybe, y: Maybe) -> bool:
    if x is None or y is None:
        return x is y
    return (x.shape, x.stride(), x.dtype) == (y.shape, y.stride(), y.dtype)


def padded_like(x: torch.Tensor) -> TensorSpec:
    """The spec of the gradient of ``x`` (M, N), padded like ``x`` if the padding is small.

    Then rows of both start at the same offset within a vector, and both use 16-byte accesses.
    """
    rows, cols = x.shape
    stride = x.stride(0)
    gaps = stride if cols <= stride <= cols + cols // 8 else cols
    return (rows, cols), (gaps, 1), x.dtype
