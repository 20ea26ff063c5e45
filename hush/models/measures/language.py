"""Measures of tokens in their order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from hush.models.measures.kind import Main, Values, mismatch, tensor


@dataclass(frozen=True)
class Language:
    """perplexity: exp of the mean cross-entropy of all tokens; token_accuracy: the part of them that come first.

    The classes are the outputs' second axis, as torch's cross-entropy has it, or their last; where both may be,
    `second` says which. A target of `ignored` is no token.
    """

    ignored: int = -100
    second: bool = True

    def part(self, output: Any, targets: Tensor) -> tuple[float, int, int]:
        """The summed cross-entropy, the right tokens, and the tokens."""
        scores = tensor(output, "language")
        second, last = (scores.shape[0], *scores.shape[2:]) == targets.shape, scores.shape[:-1] == targets.shape
        if not second and not last:
            raise mismatch("language", scores, targets)
        if not second or (last and not self.second):
            scores = scores.movedim(-1, 1)
        counted = targets != self.ignored
        losses = F.cross_entropy(scores.float(), targets, ignore_index=self.ignored, reduction="none")
        right = (scores.argmax(1) == targets) & counted
        return float(losses[counted].double().sum()), int(right.sum()), int(counted.sum())

    def whole(self, parts: Sequence[Any], targets: Tensor) -> Values:
        """perplexity and token_accuracy."""
        tokens = sum(count for _, _, count in parts)
        if not tokens:
            return {"perplexity": None, "token_accuracy": None}
        mean = math.fsum(loss for loss, _, _ in parts) / tokens
        right = sum(count for _, count, _ in parts)
        return {"perplexity": math.exp(mean) if mean < 700 else None, "token_accuracy": right / tokens}

    def main(self, values: Values) -> Main:
        """perplexity, of which less is better."""
        return Main("perplexity", False)
