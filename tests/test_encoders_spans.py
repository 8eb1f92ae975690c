"""Spans and prompts of sbert encoders, against plain transformers on small models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra 'clip'")

import torch
import transformers
from clips import CPU, same, unit
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from towers import TEXT, reconfigured, xlm_roberta

from admire import UserError
from admire.encoders import Query, Vectors, open_encoder
from admire.encoders.cached import CachedEncoder, checked
from admire.encoders.sentence import SentenceEncoder

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MARKS = ["<s>", "<pad>", "</s>", "<unk>"]
BERT_MARKS = ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
WORDS = [*dict.fromkeys([*TEXT.split(), "café"])]
PROMPT = "the meaning of the words is : "
Marked = tuple[str, str]
"""A text and its tokens as they are known by hand, in both the span in braces."""


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


def unigram() -> Tokenizer:
    """XLM-R's: SentencePiece's normal form and its mark before words."""
    pieces = [*MARKS, *(f"▁{word}" for word in WORDS), "▁", "-", *"abcdefghijklmnopqrstuvwxyzé"]
    scores = [(piece, -k / 100) for k, piece in enumerate(pieces)]
    tokenizer = Tokenizer(models.Unigram(scores, 3, False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    mark = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), mark])
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
    begin, pad, end, unknown = BERT_MARKS if bert else MARKS
    config = transformers.BertConfig() if bert else transformers.XLMRobertaConfig()
    sizes = xlm_roberta(range(tokenizer.get_vocab_size())).to_diff_dict()
    sizes |= {"initializer_range": 0.4, "pad_token_id": tokenizer.token_to_id(pad)}
    config.update(sizes | {"model_type": config.model_type})
    torch.manual_seed(seed)
    parts = folder.with_name(folder.name + "-parts")
    transformers.AutoModel.from_config(config).save_pretrained(parts)
    marks = {"bos_token": begin, "cls_token": begin, "eos_token": end, "sep_token": end}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad, unk_token=unknown, model_max_length=64, **marks
    ).save_pretrained(parts)
    modules = [Transformer(str(parts), max_seq_length=64), Pooling(32, pooling), *after]
    save_modules(folder, *modules)
    return folder


def save_modules(folder: Path, *modules: torch.nn.Module) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(modules=list(modules), device="cpu")
    model.save(str(folder), create_model_card=False)  # the card would ask the hub


TOKENIZERS = {"wordpiece": wordpiece, "unigram": unigram}


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


BERT: dict[str, Marked] = {
    "plain": ("a {night owl} is big", "[CLS] a { night ow ##l } is big [SEP]"),
    "combining inside": ("a {Cafe\u0301 owl} is", "[CLS] a { cafe ow ##l } is [SEP]"),
    "dropped before": ("a\u200b\x07 \ufeff{owl} is", "[CLS] a { ow ##l } is [SEP]"),
    "inside a token": ("a n{igh}t owl", "[CLS] a { night } ow ##l [SEP]"),
    "across tokens": ("a nigh{t o}wl is", "[CLS] a { night ow } ##l is [SEP]"),
    "long": (
        " ".join(["a night"] * 12) + " {big owl} " + " ".join(["is"] * 20),
        "[CLS] " + "a night " * 12 + "{ big ow ##l } " + "is " * 20 + "[SEP]",
    ),
}
PIECES: dict[str, Marked] = {
    "combining inside": ("a {cafe\u0301} is", "<s> ▁a { ▁café } ▁is </s>"),
    "longer once normal": ("a oﬃ {owl} is", "<s> ▁a ▁of f i { ▁owl } ▁is </s>"),
    "spaces at the start": ("  {owl} is", "<s> { ▁owl } ▁is </s>"),
}
CASES = {"wordpiece": BERT, "unigram": PIECES}


@pytest.mark.parametrize(
    ("kind", "case"), [(kind, case) for kind, cases in CASES.items() for case in cases]
)
def test_a_span_is_the_mean_of_its_tokens_in_context(folder_of, model_of, kind: str, case: str):
    text, tokens = CASES[kind][case]
    query = ask(text)
    wanted = by_hand(folder_of(kind), query.text, tokens)
    assert same(asked(model_of(kind), query)[0], wanted)


def test_a_text_with_several_spans_is_read_once(folder, encoder):
    texts = ["a {night owl} is big", "a night owl is {big}", "an {owl} is big"]
    alone = [asked(encoder, ask(text))[0] for text in texts]
    read: list[torch.Tensor] = []
    hook = encoder.model[0].register_forward_pre_hook(
        lambda _, inputs: read.extend(inputs[0]["input_ids"])
    )
    together = asked(encoder, *map(ask, texts))
    hook.remove()
    assert [*map(same, together, alone)] == [True] * 3
    assert len(read) == 2


@pytest.mark.parametrize("named", [False, True], ids=["in its config", "by its name"])
def test_the_models_own_prompt_moves_the_span(folder, tmp_path, named: bool):
    prompts = {} if named else {"prompts": {"query": "query : ", "document": "passage : "}}
    folder = reconfigured(folder, tmp_path / ("e5-small" if named else "model"), **prompts)
    text = "query: a night owl is" if named else "query : a night owl is"
    wanted = by_hand(folder, text, "[CLS] query : a { night ow ##l } is [SEP]")
    encoder = SentenceEncoder(str(folder), None, CPU)
    assert same(asked(encoder, ask("a {night owl} is"))[0], wanted)
    bare = by_hand(folder, "a night owl is", "[CLS] a { night ow ##l } is [SEP]")
    assert not same(bare, wanted, 1e-2)
    assert same(asked(encoder, ask("a {night owl} is", ""))[0], bare)


def test_prompts_and_spans_in_one_call_come_back_in_order(folder_of, model_of):
    kind = "unigram"
    # Long and short ones, the same ones again, and groups that are interleaved.
    text, long = "a {night owl} is big", "a big owl is {on the tree} at night in the big tree"
    queries = [
        ask(text),
        Query("my sister"),
        ask(long, "who is "),
        Query("my sister", "who is "),
        ask(text, PROMPT),
        ask(long),
        ask(text),
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
    assert same(found[0], found[-1])
    assert same(asked(model_of(kind), *queries[::-1])[::-1], found)


def test_queries_and_spans_go_through_the_tower_of_queries(tmp_path: Path):
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    names = ("query", "document")
    towers = [save_model(tmp_path / n, wordpiece(), seed=k) for k, n in enumerate(names)]
    routes = [[Transformer(f"{t}-parts", max_seq_length=64), Pooling(32)] for t in towers]
    save_modules(tmp_path / "both", Router.for_query_document(*routes))
    encoder, alone = SentenceEncoder(str(tmp_path / "both"), None, CPU), towers[0]
    text = "a night owl is"
    whole, prompted = asked(encoder, Query(text), Query(text, "who is "))
    assert same(whole, whole_by_hand(alone, text))
    assert same(prompted, whole_by_hand(alone, "who is " + text))
    wanted = by_hand(alone, "a night owl is", "[CLS] a { night ow ##l } is [SEP]")
    assert same(asked(encoder, ask("a {night owl} is"))[0], wanted)


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


def test_queries_are_encoded_once(folder, encoder):
    queries = [ask("a {night owl} is"), Query("a night owl"), ask("a {night owl} is", PROMPT)]
    for encoded in (3, 0):
        cached = open_encoder(f"sbert:{folder}", device="cpu")
        assert isinstance(cached, CachedEncoder)
        for order in (1, -1):
            assert same(cached.encode_queries(queries[::order])[::order], asked(encoder, *queries))
        assert cached.encoded == encoded


def complaint(encoder: SentenceEncoder | CachedEncoder, *queries: Query) -> str:
    with pytest.raises(UserError) as caught:
        encoder.encode_queries(queries)
    return str(caught.value)


def test_a_span_beyond_the_limit_is_refused(folder, encoder):
    far = ask("is " * 62 + "{red desk} is")
    good = ask("a {night owl} is")
    for queries in ([far], [good, far, Query("an owl")]):
        said = complaint(encoder, *queries)
        assert f"sbert:{folder}: " in said
        assert "'red desk'" in said
        assert "its limit of 64 tokens" in said
    cut = checked(open_encoder(f"sbert:{folder}", device="cpu"), "cut")
    assert complaint(cut, good, far) == said
