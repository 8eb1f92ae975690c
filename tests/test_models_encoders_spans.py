"""Spans and prompts of sbert encoders, against plain transformers on small models."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from toys import WordEncoder

from admire import UserError
from admire.models.encoders import Query, QueryEncoder, Vectors, open_encoder
from admire.models.encoders.cached import CachedEncoder, CachedSentences
from admire.models.encoders.placement import Placement
from admire.models.encoders.sentence import SentenceEncoder

torch = pytest.importorskip("torch", reason="needs the extra 'clip'")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'clip'")

import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from tokenizers import (  # noqa: E402
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from towers import TEXT  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MARKS = ["<s>", "<pad>", "</s>", "<unk>"]
BERT_MARKS = ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
WORDS = [*dict.fromkeys([*TEXT.split(), "café"])]
CPU = Placement("cpu")
PROMPT = "the meaning of the words is : "
Marked = tuple[str, str]
"""A text and its tokens as they are known by hand, in both the span in braces."""


# ------------------------------------------------------------------------------- small models


@pytest.fixture(autouse=True)
def no_network(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Nothing of the user's hub cache is seen; a try of the network fails the test."""
    tried: list[tuple] = []

    def refuse(*address: object, **_: object) -> None:
        tried.append(address)
        raise OSError("tests must not use the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("hub")))
    yield
    assert not tried


def wordpiece() -> Tokenizer:
    """BERT's: lower case, no accents, pieces of words."""
    whole = [word for word in TEXT.split() if word != "owl"]  # which falls into two
    pieces = [*BERT_MARKS, "-", ":", ".", "cafe", "ow", "##l", "##s", *dict.fromkeys(whole)]
    vocabulary = {piece: k for k, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 0))
    return tokenizer


def byte_level(trim: bool) -> Tokenizer:
    """RoBERTa's: bytes, a token holds the space before its word, and its place does or does not."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bare = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    merges: dict[tuple[str, str], None] = {}
    for word in WORDS:
        [(piece, _)] = bare.pre_tokenize_str(f" {word}")
        merges |= {(piece[:k], piece[k]): None for k in range(1, len(piece))}
    pieces = dict.fromkeys([*MARKS, *alphabet, *(a + b for a, b in merges)])
    vocabulary = {piece: k for k, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=trim, add_prefix_space=False
    )
    return tokenizer


def unigram(split: bool) -> Tokenizer:
    """XLM-R's: SentencePiece's normal form and its mark before words."""
    pieces = [*MARKS, *(f"▁{word}" for word in WORDS), "▁", "-", *"abcdefghijklmnopqrstuvwxyzé"]
    scores = [(piece, -k / 100) for k, piece in enumerate(pieces)]
    tokenizer = Tokenizer(models.Unigram(scores, 3, False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    mark = pre_tokenizers.Metaspace(prepend_scheme="always")
    parts = [pre_tokenizers.WhitespaceSplit(), mark]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts) if split else mark
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def save_model(
    folder: Path,
    tokenizer: Tokenizer,
    pooling: str = "mean",
    after: Sequence[torch.nn.Module] = (),
    seed: int = 5,
) -> Path:
    """A sentence-transformers folder; its weights are so large that the context counts. Beside it,
    with -parts behind the name, lies what transformers alone needs."""
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    bert = tokenizer.token_to_id("[CLS]") is not None
    names = BERT_MARKS if bert else MARKS
    sizes = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "initializer_range": 0.4,
        "max_position_embeddings": 66,
        "pad_token_id": tokenizer.token_to_id(names[1]),
    }
    torch.manual_seed(seed)
    if bert:
        model = transformers.BertModel(transformers.BertConfig(**sizes))
    elif isinstance(tokenizer.model, models.BPE):
        model = transformers.RobertaModel(transformers.RobertaConfig(**sizes))
    else:
        model = transformers.XLMRobertaModel(transformers.XLMRobertaConfig(**sizes))
    parts = folder.with_name(folder.name + "-parts")
    model.save_pretrained(parts)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=names[0],
        cls_token=names[0],
        pad_token=names[1],
        eos_token=names[2],
        sep_token=names[2],
        unk_token=names[3],
        model_max_length=64,
    ).save_pretrained(parts)
    modules = [Transformer(str(parts), max_seq_length=64), Pooling(32, pooling), *after]
    save_modules(folder, *modules)
    return folder


def save_modules(folder: Path, *modules: torch.nn.Module) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(modules=list(modules), device="cpu")
    model.save(str(folder), create_model_card=False)  # the card would ask the hub


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "wordpiece": wordpiece,
    "bytes": lambda: byte_level(trim=True),
    "bytes with spaces": lambda: byte_level(trim=False),
    "unigram": lambda: unigram(split=False),
    "unigram by words": lambda: unigram(split=True),
}
KINDS = pytest.mark.parametrize("kind", TOKENIZERS)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of the model with that kind of tokenizer."""
    place = tmp_path_factory.mktemp("models")
    return cache(lambda kind: save_model(place / kind.replace(" ", "-"), TOKENIZERS[kind]()))


@pytest.fixture(scope="module")
def model_of(folder_of: Callable[[str], Path]) -> Callable[[str], SentenceEncoder]:
    return cache(lambda kind: SentenceEncoder(str(folder_of(kind)), None, CPU))


@pytest.fixture(scope="module")
def folder(folder_of: Callable[[str], Path]) -> Path:
    return folder_of("wordpiece")


@pytest.fixture(scope="module")
def encoder(model_of: Callable[[str], SentenceEncoder]) -> SentenceEncoder:
    return model_of("wordpiece")


@pytest.fixture
def with_config(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the model with other settings in its config_sentence_transformers.json."""

    def copy(name: str = "model", **changes: object) -> Path:
        copied = Path(shutil.copytree(folder, tmp_path / name))
        path = copied / "config_sentence_transformers.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return copied

    return copy


# ------------------------------------------------------------------------------------ by hand


def unit(vectors: object) -> Vectors:
    array = np.asarray(vectors, dtype=np.float32)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def same(found: Vectors, wanted: Vectors, within: float = 1e-5) -> bool:
    assert found.shape == wanted.shape
    return bool(np.abs(found - wanted).max() < within)


def ask(text: str, prompt: str | None = None) -> Query:
    """The query whose span is in braces."""
    before, _, rest = text.partition("{")
    span, _, after = rest.partition("}")
    return Query(before + span + after, prompt, (len(before), len(before) + len(span)))


def asked(encoder: SentenceEncoder, *queries: Query) -> Vectors:
    return unit(encoder.encode_queries(queries))


@cache
def plain_transformers(folder: Path) -> tuple:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModel.from_pretrained(folder).eval()


@cache
def plain_sbert(folder: Path) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def states_by_hand(folder: Path, text: str) -> tuple[list[str], torch.Tensor]:
    """The text's tokens and their last hidden states, of transformers alone."""
    tokenizer, model = plain_transformers(folder)
    features = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        states = model(**features).last_hidden_state[0]
    return tokenizer.convert_ids_to_tokens(features["input_ids"][0]), states


def mean_by_hand(folder: Path, text: str, tokens: str) -> torch.Tensor:
    """The mean state of the tokens in braces; the text must fall into just these tokens."""
    found, states = states_by_hand(folder, text)
    pieces = tokens.split()
    assert found == [piece for piece in pieces if piece not in ("{", "}")]
    span = states[pieces.index("{") : pieces.index("}") - 1]
    assert len(span)
    for other in (states[pieces.index("{") - 1 : pieces.index("}") - 2], states):
        mean, wrong = unit(span.mean(dim=0)), unit(other.mean(dim=0))
        assert not same(mean, wrong, 1e-3), "other tokens would give the same"
    return span.mean(dim=0)


def by_hand(folder: Path, text: str, tokens: str) -> Vectors:
    return unit(mean_by_hand(folder, text, tokens))


def whole_by_hand(folder: Path, text: str) -> Vectors:
    """The text's own vector with sentence-transformers, without a prompt."""
    return unit(plain_sbert(folder).encode(text, prompt="", show_progress_bar=False))


# ------------------------------------------------------------------------- the right tokens

BERT: dict[str, Marked] = {
    "plain": ("a {night owl} is big", "[CLS] a { night ow ##l } is big [SEP]"),
    "capitals": ("A {Night OWL} is", "[CLS] a { night ow ##l } is [SEP]"),
    "start": ("{night owl} is my sister", "[CLS] { night ow ##l } is my sister [SEP]"),
    "end": ("my sister is a {night owl}", "[CLS] my sister is a { night ow ##l } [SEP]"),
    "before a full stop": ("a {night owl}.", "[CLS] a { night ow ##l } . [SEP]"),
    "accents before": ("Café Ñandú ÀÉÎ {owl} is", "[CLS] cafe [UNK] [UNK] { ow ##l } is [SEP]"),
    "combining before": ("cafe\u0301 a\u0300 {owl} is", "[CLS] cafe a { ow ##l } is [SEP]"),
    "accents inside": ("a {Café} is", "[CLS] a { cafe } is [SEP]"),
    "combining inside": ("a {Cafe\u0301 owl} is", "[CLS] a { cafe ow ##l } is [SEP]"),
    "emoji before": ("🦉 {owl} is", "[CLS] [UNK] { ow ##l } is [SEP]"),
    "joined emoji before": ("👩🏽\u200d🎤 a {owl} is", "[CLS] [UNK] a { ow ##l } is [SEP]"),
    "letters apart before": ("夜猫 {owl} is", "[CLS] [UNK] [UNK] { ow ##l } is [SEP]"),
    "dropped before": ("a\u200b\x07 \ufeff{owl} is", "[CLS] a { ow ##l } is [SEP]"),
    "hyphens": ("a {night-owl} is", "[CLS] a { night - ow ##l } is [SEP]"),
    "after a hyphen": ("a night-{owl} is", "[CLS] a night - { ow ##l } is [SEP]"),
    "stem": ("two {owl}s is", "[CLS] [UNK] { ow ##l } ##s is [SEP]"),
    "inside a token": ("a n{igh}t owl", "[CLS] a { night } ow ##l [SEP]"),
    "across tokens": ("a nigh{t o}wl is", "[CLS] a { night ow } ##l is [SEP]"),
    "second": (
        "a night owl is a {night owl} is",
        "[CLS] a night ow ##l is a { night ow ##l } is [SEP]",
    ),
    "spaces around": ("  a  {night owl}  is \n", "[CLS] a { night ow ##l } is [SEP]"),
    "spaces at the start": (" \t{owl} is", "[CLS] { ow ##l } is [SEP]"),
    "unknown": ("a {🦉} is", "[CLS] a { [UNK] } is [SEP]"),
    "long": (
        " ".join(["a night"] * 12) + " {big owl} " + " ".join(["is"] * 20),
        "[CLS] " + "a night " * 12 + "{ big ow ##l } " + "is " * 20 + "[SEP]",
    ),
}
BYTES: dict[str, Marked] = {
    "plain": ("a {night owl} is big", "<s> a { Ġnight Ġowl } Ġis Ġbig </s>"),
    "start": ("{night owl} is", "<s> { n i g h t Ġowl } Ġis </s>"),
    "one letter at the start": ("{a} night owl", "<s> { a } Ġnight Ġowl </s>"),
    "end": ("sister is a {night owl}", "<s> s i s t e r Ġis Ġa { Ġnight Ġowl } </s>"),
    "accents before": ("a café Ñ {owl} is", "<s> a ĠcafÃ© Ġ Ã ĳ { Ġowl } Ġis </s>"),
    "combining before": ("e\u0301 {owl} is", "<s> e Ì ģ { Ġowl } Ġis </s>"),
    "accents inside": ("a {café} is", "<s> a { ĠcafÃ© } Ġis </s>"),
    "emoji before": ("🦉 {owl} is", "<s> ð Ł ¦ ī { Ġowl } Ġis </s>"),
    "emoji inside": ("a{🦉}s is", "<s> a { ð Ł ¦ ī } s Ġis </s>"),
    "hyphens": ("a {night-ow} is", "<s> a { Ġnight - o w } Ġis </s>"),
    "stem": ("a {owl}s is", "<s> a { Ġowl } s Ġis </s>"),
    "inside a token": ("a n{igh}t owl", "<s> a { Ġnight } Ġowl </s>"),
    "second": (
        "a night owl is a {night owl} is",
        "<s> a Ġnight Ġowl Ġis Ġa { Ġnight Ġowl } Ġis </s>",
    ),
    "spaces around": (" a {night owl} is  ", "<s> Ġa { Ġnight Ġowl } Ġis Ġ Ġ </s>"),
    "spaces before": ("a   {owl} is", "<s> a Ġ Ġ { Ġowl } Ġis </s>"),
    "spaces at the start": ("  {owl} is", "<s> Ġ { Ġowl } Ġis </s>"),
    "long": (
        "a" + " night" * 20 + " {big owl}" + " is" * 20,
        "<s> a" + " Ġnight" * 20 + " { Ġbig Ġowl }" + " Ġis" * 20 + " </s>",
    ),
}
PIECES: dict[str, Marked] = {
    "plain": ("a {night owl} is big", "<s> ▁a { ▁night ▁owl } ▁is ▁big </s>"),
    "start": ("{night owl} is", "<s> { ▁night ▁owl } ▁is </s>"),
    "end": ("my sister is a {night owl}", "<s> ▁my ▁sister ▁is ▁a { ▁night ▁owl } </s>"),
    "accents before": ("a café Ñ {owl} is", "<s> ▁a ▁café ▁ <unk> { ▁owl } ▁is </s>"),
    "combining before": ("a cafe\u0301 {owl} is", "<s> ▁a ▁café { ▁owl } ▁is </s>"),
    "combining inside": ("a {cafe\u0301} is", "<s> ▁a { ▁café } ▁is </s>"),
    "longer once normal": ("a oﬃ {owl} is", "<s> ▁a ▁of f i { ▁owl } ▁is </s>"),
    "emoji before": ("a 🦉 {owl} is", "<s> ▁a ▁ <unk> { ▁owl } ▁is </s>"),
    "joined emoji before": ("a 👩🏽\u200d🎤 {owl} is", "<s> ▁a ▁ <unk> { ▁owl } ▁is </s>"),
    "hyphens": ("a {night-o} is", "<s> ▁a { ▁night - o } ▁is </s>"),
    "stem": ("a {owl}s is", "<s> ▁a { ▁owl } s ▁is </s>"),
    "inside a token": ("a n{igh}t owl", "<s> ▁a { ▁night } ▁owl </s>"),
    "second": (
        "a night owl is a {night owl} is",
        "<s> ▁a ▁night ▁owl ▁is ▁a { ▁night ▁owl } ▁is </s>",
    ),
    "spaces before": (" a   {night owl} is", "<s> ▁a { ▁night ▁owl } ▁is </s>"),
    "spaces at the start": ("  {owl} is", "<s> { ▁owl } ▁is </s>"),
    "long": (
        "a" + " night" * 20 + " {big owl}" + " is" * 20,
        "<s> ▁a" + " ▁night" * 20 + " { ▁big ▁owl }" + " ▁is" * 20 + " </s>",
    ),
}
CASES = {
    "wordpiece": BERT,
    "bytes": BYTES,
    "bytes with spaces": BYTES,
    "unigram": PIECES,
    "unigram by words": PIECES,
}


@pytest.mark.parametrize(
    ("kind", "case"),
    [(kind, case) for kind, cases in CASES.items() for case in cases],
)
def test_a_span_is_the_mean_of_its_tokens_in_context(folder_of, model_of, kind: str, case: str):
    text, tokens = CASES[kind][case]
    query = ask(text)
    wanted = by_hand(folder_of(kind), query.text, tokens)
    assert same(asked(model_of(kind), query)[0], wanted)


@KINDS
def test_spans_of_texts_of_all_lengths_go_in_one_batch(folder_of, model_of, kind: str):
    queries = [ask(text) for text, _ in CASES[kind].values()]
    wanted = np.stack(
        [
            by_hand(folder_of(kind), query.text, tokens)
            for query, (_, tokens) in zip(queries, CASES[kind].values(), strict=True)
        ]
    )
    assert same(asked(model_of(kind), *queries), wanted)
    assert same(asked(model_of(kind), *queries[::-1])[::-1], wanted)


@KINDS
def test_a_span_of_the_whole_text_is_its_mean_without_the_marks(folder_of, model_of, kind: str):
    text = "a night owl is big"
    _, states = states_by_hand(folder_of(kind), text)
    found = asked(model_of(kind), Query(text, span=(0, len(text))))[0]
    assert same(found, unit(states[1:-1].mean(dim=0)))
    assert same(whole_by_hand(folder_of(kind), text), unit(states.mean(dim=0)))
    assert not same(found, unit(states.mean(dim=0)), 1e-3)


# ------------------------------------------------------------------------------------ prompts


@pytest.mark.parametrize("named", [False, True], ids=["in its config", "by its name"])
def test_the_models_own_prompt_moves_the_span(with_config, named: bool):
    prompts = {} if named else {"prompts": {"query": "query : ", "document": "passage : "}}
    folder = with_config("e5-small" if named else "model", **prompts)
    text = "query: a night owl is" if named else "query : a night owl is"
    wanted = by_hand(folder, text, "[CLS] query : a { night ow ##l } is [SEP]")
    encoder = SentenceEncoder(str(folder), None, CPU)
    assert same(asked(encoder, ask("a {night owl} is"))[0], wanted)
    bare = by_hand(folder, "a night owl is", "[CLS] a { night ow ##l } is [SEP]")
    assert not same(bare, wanted, 1e-2)
    assert same(asked(encoder, ask("a {night owl} is", ""))[0], bare)


@pytest.mark.parametrize("name", ["e5-small", "model"])
def test_a_given_prompt_replaces_the_models_own(with_config, name: str):
    folder = with_config(name, prompts={"query": "query : "} if name == "model" else {})
    encoder = SentenceEncoder(str(folder), None, CPU)
    whole, span, bare = asked(
        encoder,
        Query("a night owl", "who is "),
        ask("a {night owl}", "who is "),
        Query("a night owl", ""),
    )
    assert same(whole, whole_by_hand(folder, "who is a night owl"))
    wanted = by_hand(folder, "who is a night owl", "[CLS] who is a { night ow ##l } [SEP]")
    assert same(span, wanted)
    assert same(bare, whole_by_hand(folder, "a night owl"))
    own = asked(encoder, Query("a night owl"), ask("a {night owl}"))
    assert not same(own, np.stack([whole, span]), 1e-2)


@KINDS
def test_prompts_and_spans_in_one_call_come_back_in_order(folder_of, model_of, kind: str):
    # Long and short ones, the same ones again, and groups that are interleaved.
    text, long = "a {night owl} is big", "a big owl is {on the tree} at night in the big tree"
    queries = [
        ask(text),
        Query("my sister"),
        ask(long, "who is "),
        Query("my sister", "who is "),
        ask(text, PROMPT),
        Query("a big owl at night in the tree"),
        ask(long),
        ask(text, "who is "),
        ask(text),
        Query("an owl", PROMPT),
    ]
    found = asked(model_of(kind), *queries)
    for vector, query in zip(found, queries, strict=True):
        said = (query.prompt or "") + query.text
        if query.span is None:
            assert same(vector, whole_by_hand(folder_of(kind), said))
        else:
            moved = tuple(len(query.prompt or "") + place for place in query.span)
            found_alone = asked(model_of(kind), Query(said, span=moved))
            assert same(vector, found_alone[0])
    assert same(found[0], found[8])
    others = np.delete(found, 8, axis=0)
    cosines = others @ others.T
    assert cosines[~np.eye(len(others), dtype=bool)].max() < 0.999
    assert same(asked(model_of(kind), *queries[::-1])[::-1], found)


@pytest.mark.parametrize("name", ["e5-small", "model"])
def test_without_span_and_prompt_a_query_is_its_text(with_config, name: str):
    encoder = SentenceEncoder(str(with_config(name)), None, CPU)
    texts = ["a night owl", "my sister is who writes at midnight", "an owl"]
    found = asked(encoder, *map(Query, texts))
    assert same(found, unit(encoder.encode_texts(texts, role="query")))
    documents = unit(encoder.encode_texts(texts, role="document"))
    assert same(found, documents, 1e-3) == (name == "model")


@pytest.mark.parametrize("query", [{}, {"query": ""}], ids=["none", "empty"])
def test_a_default_prompt_is_not_for_queries(with_config, query: dict[str, str]):
    # Unless a model says otherwise the library gives it an empty one, which goes before the default
    folder = with_config(prompts={"own": "who is "} | query, default_prompt_name="own")
    encoder = SentenceEncoder(str(folder), None, CPU)
    span, whole = asked(encoder, ask("a {night owl} is"), Query("a night owl is"))
    assert same(whole, whole_by_hand(folder, "a night owl is"))
    wanted = by_hand(folder, "a night owl is", "[CLS] a { night ow ##l } is [SEP]")
    assert same(span, wanted)


# ----------------------------------------------------- models that treat queries differently


@pytest.fixture
def two_towers(tmp_path: Path) -> tuple[SentenceEncoder, Path]:
    """An encoder with one tower for queries, another for documents, and the first tower alone."""
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    names = ("query", "document")
    towers = [save_model(tmp_path / n, wordpiece(), seed=k) for k, n in enumerate(names)]
    routes = [[Transformer(f"{t}-parts", max_seq_length=64), Pooling(32)] for t in towers]
    save_modules(tmp_path / "both", Router.for_query_document(*routes))
    return SentenceEncoder(str(tmp_path / "both"), None, CPU), towers[0]


def test_queries_and_spans_go_through_the_tower_of_queries(two_towers):
    encoder, alone = two_towers
    text = "a night owl is"
    whole, prompted = asked(encoder, Query(text), Query(text, "who is "))
    assert same(whole, whole_by_hand(alone, text))
    assert same(prompted, whole_by_hand(alone, "who is " + text))
    wanted = by_hand(alone, "a night owl is", "[CLS] a { night ow ##l } is [SEP]")
    assert same(asked(encoder, ask("a {night owl} is"))[0], wanted)


def test_a_prompt_does_not_change_how_much_of_a_query_is_read(folder, tmp_path):
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    module = Transformer(f"{folder}-parts", max_seq_length=64, query_length=8)
    save_modules(tmp_path / "short", module, Pooling(32))
    encoder = SentenceEncoder(str(tmp_path / "short"), None, CPU)
    text = "a big big big big big red desk"
    own, prompted = asked(encoder, Query(text), Query(text, ""))
    assert same(own, whole_by_hand(folder, "a big big big big big"))
    assert same(prompted, own)


# ------------------------------------------------------------------------ after the pooling


def test_what_comes_after_the_pooling_is_done_to_spans_too(tmp_path):
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    torch.manual_seed(6)
    folder = save_model(tmp_path / "dense", wordpiece(), "cls", [Dense(32, 12), Normalize()])
    encoder = SentenceEncoder(str(folder), None, CPU)
    head = load_file(next(folder.glob("2_Dense/*.safetensors")))

    def project(state: torch.Tensor) -> Vectors:
        return unit(torch.tanh(head["linear.weight"] @ state + head["linear.bias"]))

    text, tokens = "a night owl is", "[CLS] a { night ow ##l } is [SEP]"
    raw = encoder.encode_queries([ask("a {night owl} is"), Query(text)])
    assert raw.shape == (2, 12)
    assert same(raw[0], project(mean_by_hand(folder, text, tokens)))
    assert same(raw[1], project(states_by_hand(folder, text)[1][0])), "the sentence is its [CLS]"
    assert same(np.linalg.norm(raw, axis=1), np.ones(2, dtype=np.float32))


def test_a_span_is_encoded_without_dropout(tmp_path):
    from sentence_transformers.sentence_transformer.modules import Dropout

    folder = save_model(tmp_path / "dropout", wordpiece(), after=[Dropout(0.5)])
    wanted = by_hand(folder, "a night owl is", "[CLS] a { night ow ##l } is [SEP]")
    encoder = SentenceEncoder(str(folder), None, CPU)
    assert same(asked(encoder, ask("a {night owl} is"))[0], wanted)


def test_a_span_is_cut_to_the_width_of_the_texts(with_config):
    folder = with_config(truncate_dim=8)
    mean = mean_by_hand(folder, "a night owl is", "[CLS] a { night ow ##l } is [SEP]")
    encoder = SentenceEncoder(str(folder), None, CPU)
    assert encoder.encode_texts(["a night owl is"], role="query").shape == (1, 8)
    assert same(asked(encoder, ask("a {night owl} is"))[0], unit(mean[:8]))
    assert asked(encoder, ask("a {night owl} is"), Query("a night owl is")).shape == (2, 8)


# ---------------------------------------------------------------------------------- the cache


def test_vectors_have_unit_length_and_are_encoded_once(folder):
    queries = [ask("a {night owl} is"), Query("a night owl"), ask("a {night owl} is", PROMPT)]
    name = f"sbert:{folder}"
    encoder = open_encoder(name, device="cpu")
    assert isinstance(encoder, CachedSentences)
    found = encoder.encode_queries(queries)
    assert found.dtype == np.float32
    assert same(np.linalg.norm(found, axis=1), np.ones(3, dtype=np.float32), 1e-6)
    assert same(found, asked(SentenceEncoder(str(folder), None, CPU), *queries))
    assert encoder.encoded == 3
    assert np.array_equal(encoder.encode_queries(queries[::-1])[::-1], found)
    assert encoder.encoded == 3
    another = open_encoder(name, device="cpu")
    assert np.array_equal(another.encode_queries(queries), found)
    assert another.encoded == 0


def test_another_span_or_prompt_is_encoded_anew(folder):
    encoder = open_encoder(f"sbert:{folder}", device="cpu")
    text = "a night owl is a night owl"
    queries = [
        Query(text),
        Query(text, ""),
        Query(text, PROMPT),
        Query(text, span=(2, 11)),
        Query(text, span=(2, 7)),
        Query(text, span=(17, 26)),
        Query(text, PROMPT, (2, 11)),
        Query(text[:-4], PROMPT, (2, 11)),
    ]
    found = [encoder.encode_queries([query])[0] for query in queries]
    assert encoder.encoded == len(queries)
    wanted = asked(SentenceEncoder(str(folder), None, CPU), *queries)
    assert same(np.stack(found), wanted)
    cosines = wanted[1:] @ wanted[1:].T
    assert cosines[~np.eye(len(wanted) - 1, dtype=bool)].max() < 0.9999
    encoder.encode_queries(queries * 2)
    assert encoder.encoded == len(queries)


# ------------------------------------------------------------------------------------- errors


def complaint(encoder: SentenceEncoder | CachedSentences, *queries: Query) -> str:
    with pytest.raises(UserError) as caught:
        encoder.encode_queries(queries)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_span_beyond_the_limit_is_refused(folder, encoder):
    far = ask("is " * 62 + "{red desk} is")
    good = ask("a {night owl} is")
    for queries in ([far], [good, far, Query("an owl")]):
        said = complaint(encoder, *queries)
        assert f"sbert:{folder}: " in said
        assert "'red desk'" in said
        assert "its limit of 64 tokens" in said
    assert complaint(open_encoder(f"sbert:{folder}", device="cpu"), good, far) == said


def test_the_last_words_within_the_limit_are_read(folder, encoder):
    found = asked(encoder, ask("is " * 61 + "{night} is is is is"))[0]
    wanted = by_hand(folder, "is " * 61 + "night", "[CLS] " + "is " * 61 + "{ night } [SEP]")
    assert same(found, wanted)


@pytest.mark.parametrize("text", ["a{ }night", "a\u200b{\u200b} night", "a {}night"])
def test_a_span_without_tokens_is_not_said_to_be_beyond_the_limit(encoder, text: str):
    assert "limit" not in complaint(encoder, ask(text))


def test_a_tokenizer_that_tells_no_places_is_refused_for_spans(folder, monkeypatch):
    encoder = SentenceEncoder(str(folder), None, CPU)
    kind = type(encoder.model.tokenizer)
    monkeypatch.setattr(kind, "is_fast", property(lambda self: False))
    said = complaint(encoder, ask("a {night owl}"))
    assert said.startswith(f"sbert:{folder}: its tokenizer does not tell where tokens stand")
    whole = asked(encoder, Query("a night owl"), Query("a night owl", PROMPT))
    assert same(whole[0], whole_by_hand(folder, "a night owl"))


# -------------------------------------------------------------------------------- who takes them


def test_only_encoders_of_sentences_take_queries(encoder, folder):
    assert isinstance(encoder, QueryEncoder)
    assert isinstance(CachedSentences(encoder), QueryEncoder)
    assert isinstance(open_encoder(f"sbert:{folder}", device="cpu"), QueryEncoder)
    assert not isinstance(WordEncoder(), QueryEncoder)
    assert not isinstance(CachedEncoder(WordEncoder()), QueryEncoder)
