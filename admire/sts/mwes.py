"""Expressions as single tokens (He et al., section 3.3): 'night owl' as IDnightowlID."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def token(mwe: str) -> str:
    """The token of an expression: its letters and digits between two ``ID``."""
    return "ID" + re.sub(r"[\W_]+", "", mwe.casefold()) + "ID"


def mark(sentence: str, mwe: str) -> str:
    """The sentence with each use of the expression, whatever its case, as its token."""
    return _pattern(mwe).sub(token(mwe), sentence)


@lru_cache(maxsize=4096)
def _pattern(mwe: str) -> re.Pattern[str]:
    words = r"[\s_-]+".join(map(re.escape, re.split(r"[\s_-]+", mwe.strip())))
    # Chinese is written without spaces, so that there an expression's neighbours are letters.
    before, after = ("", "") if re.match(r"[\u3400-\u9fff]", mwe) else (r"(?<!\w)", r"(?!\w)")
    return re.compile(before + words + after, re.IGNORECASE)


def extend(model: SentenceTransformer, mwes: Iterable[str]) -> str:
    """Give the model's vocabulary a token for each expression.

    A new token begins as the mean of the tokens that the expression had so far, so that a model
    that has learned nothing yet compares much as before. Of the vectors of tokens only those of new
    ones are learned from then on, so that they can be learned faster than the rest of the model.

    Returns:
        The name of the weights in which those vectors are.
    """
    import torch

    tokenizer = model.tokenizer
    known = tokenizer.get_vocab()
    new = {token(mwe): mwe for mwe in sorted(mwes, reverse=True)}
    parts = {
        name: tokenizer(mwe, add_special_tokens=False)["input_ids"]
        for name, mwe in sorted(new.items())
        if name not in known
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
    return next(name for name, found in model.named_parameters() if found is weights)


def reader(model: SentenceTransformer, mwes: Iterable[str]) -> Callable[[str], str]:
    """What puts tokens into a sentence for those of the expressions that the model has tokens of.

    For a model without such tokens sentences stay as they are.
    """
    known = model.tokenizer.get_added_vocab()
    owned = sorted({m for m in mwes if token(m) in known}, key=lambda m: (-len(m), m))
    if not owned:
        return str

    def read(sentence: str) -> str:
        for mwe in owned:
            sentence = mark(sentence, mwe)
        return sentence

    return read
