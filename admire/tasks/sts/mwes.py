"""Expressions as single tokens (He et al., section 3.3): ``night owl`` becomes IDnightowlID."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def token(mwe: str) -> str:
    """Return an expression's token: its letters and digits between ``ID`` and ``ID``."""
    return "ID" + re.sub(r"[\W_]+", "", mwe.casefold()) + "ID"


def extend(model: SentenceTransformer, mwes: Iterable[str]) -> str:
    """Add a token for each expression to the model's vocabulary; return the weights' name.

    The vector of a new token is at first the mean of the vectors of the expression's tokens, so the
    untrained model gives nearly the same similarities as before. In training, only the vectors of
    these tokens change, so they can have a higher learning rate than the rest of the model.
    """
    import torch

    tokenizer = model.tokenizer
    vocabulary = tokenizer.get_vocab()
    new = {token(mwe): mwe for mwe in sorted(mwes, reverse=True)}
    parts = {
        name: tokenizer(mwe, add_special_tokens=False)["input_ids"]
        for name, mwe in sorted(new.items())
        if name not in vocabulary
    }
    tokenizer.add_tokens(list(parts))
    transformer: Any = model[0].model
    if len(tokenizer) > transformer.get_input_embeddings().num_embeddings:
        transformer.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    weights = transformer.get_input_embeddings().weight
    with torch.no_grad():
        for name, ids in parts.items():
            weights[tokenizer.convert_tokens_to_ids(name)] = weights[ids].mean(dim=0)
    learned = torch.zeros(len(weights), 1, device=weights.device)
    learned[tokenizer.convert_tokens_to_ids(sorted(new))] = 1
    weights.register_hook(lambda gradient: gradient * learned)
    return next(name for name, values in model.named_parameters() if values is weights)


def reader(model: SentenceTransformer, mwes: Iterable[str]) -> Callable[[str], str]:
    """Return a function that replaces each use of expressions in a sentence by their tokens, in
    upper and in lower case, longer expressions first, if the model has a token for them."""
    added, patterns = model.tokenizer.get_added_vocab(), {}
    for mwe in sorted({m for m in mwes if token(m) in added}, key=lambda m: (-len(m), m)):
        words = r"[\s_-]+".join(map(re.escape, re.split(r"[\s_-]+", mwe.strip())))
        # Chinese has no spaces between words, so letters may stand next to an expression.
        apart = words if re.match(r"[\u3400-\u9fff]", mwe) else rf"(?<!\w){words}(?!\w)"
        patterns[re.compile(apart, re.IGNORECASE)] = token(mwe)

    def read(sentence: str) -> str:
        for pattern, name in patterns.items():
            sentence = pattern.sub(name, sentence)
        return sentence

    return read
