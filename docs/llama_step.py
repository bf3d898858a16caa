"""A training step of a Hugging Face Llama with each loss: its time and its memory.

    python -m docs.llama_step                    # on a GPU: 128256 classes, bfloat16
    python -m docs.llama_step --toy              # anywhere, in seconds
    python -m docs.llama_step --head policy      # log-probabilities and an entropy bonus

``ours`` is one call on the logits as they are, ``torch`` what Hugging Face's models do themselves,
``compile`` that under torch.compile; ``in_place``, ours, and ``liger``, Liger-Kernel's where it is
installed, write the gradient over the logits.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F

from kernels.cross_entropy.functions import cross_entropy
from kernels.log_softmax.functions import logprob_entropy

BONUS = 0.01  # of the entropy, in a policy's loss
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of logits (…, N) and targets (…)


def by_torch(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean loss in float32, as Hugging Face computes it."""
    return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), target.reshape(-1))


def policy_by_torch(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """−log p[target] − bonus·entropy, the mean over tokens, in float32."""
    logp = torch.log_softmax(logits.float(), -1)
    chosen = logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return -(chosen + BONUS * -(logp.exp() * logp).sum(-1)).mean()


def policy_by_us(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The same from one read of the logits."""
    logprob, entropy = logprob_entropy(logits, target)
    return -(logprob + BONUS * entropy).mean()


OURS = partial(cross_entropy, dim=-1, dtype=torch.float32)
HEADS: dict[str, dict[str, Loss]] = {
    "loss": {"ours": OURS, "in_place": partial(OURS, inplace=True), "torch": by_torch},
    "policy": {"ours": policy_by_us, "torch": policy_by_torch},
}


def measured(model: Any, tokens: torch.Tensor, loss: Loss, steps: int) -> tuple[float, ...]:
    """The first loss, the median ms of a step, and the peak memory in GiB (0 on a CPU)."""
    found, times = [], []
    for _ in range(steps + 2):  # two to warm up
        if tokens.is_cuda:
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        value = loss(model(input_ids=tokens[:, :-1]).logits, tokens[:, 1:])
        value.backward()
        model.zero_grad(set_to_none=True)
        found.append(value.item())  # waits for the whole step
        times.append(1e3 * (time.perf_counter() - began))
    return found[0], statistics.median(times[2:]), torch.cuda.max_memory_allocated() / 2**30


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Prints a line for each loss and round; returns the first step's losses."""
    from transformers import LlamaConfig, LlamaForCausalLM

    parser = argparse.ArgumentParser(prog="python -m docs.llama_step", description=__doc__)
    parser.add_argument("--head", choices=[*HEADS], default="loss")
    parser.add_argument("--toy", action="store_true", help="a tiny model, also without a GPU")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1, help="visits to each loss, in turn")
    options = parser.parse_args(arguments)
    gpu = torch.cuda.is_available()
    device, card = ("cuda", torch.cuda.get_device_name()) if gpu else ("cpu", "CPU")
    shape = (512, 32, 2, 2, 17) if options.toy else (128256, 1024, 4, 4, 2049)
    vocabulary, width, layers, batch, length = shape
    torch.manual_seed(0)
    sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers}
    heads = dict.fromkeys(("num_attention_heads", "num_key_value_heads"), max(width // 64, 1))
    model = LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **sizes, **heads)).to(device)
    model = model.to(torch.float32 if options.toy else torch.bfloat16)
    tokens = torch.randint(vocabulary, (batch, length), device=device)
    losses = dict(HEADS[options.head])
    losses["compile"] = torch.compile(losses["torch"], dynamic=False)
    if options.head == "loss" and gpu and find_spec("liger_kernel"):
        from liger_kernel.transformers import LigerCrossEntropyLoss

        liger = LigerCrossEntropyLoss()  # it writes the gradient over the logits
        losses["liger"] = lambda x, target: liger(x.flatten(0, -2), target.flatten())
    found = {}
    print(f"{card}, torch {torch.__version__}, logits {batch}×{length - 1}×{vocabulary}")
    for name, loss in [*losses.items()] * options.rounds:
        found[name], step_ms, peak_gib = measured(model, tokens, loss, options.steps)
        print(f"{name:8} loss {found[name]:.4f}  {step_ms:8.2f} ms a step  {peak_gib:6.2f} GiB")
    return found


if __name__ == "__main__":
    main()
