"""Fine-tuning for retrieval: equation 2 and its examples, training, and the command."""

from __future__ import annotations

import json
import logging
import math
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from hypothesis import given
from hypothesis import strategies as st

from admire.encoders import open_encoder
from admire.encoders.placement import Placement
from admire.encoders.sentence import E5_PROMPTS, SentenceEncoder
from admire.errors import UserError
from admire.retrieval import evaluation, retrievers
from admire.retrieval.passages import Passage, Split, relevant, write_split
from admire.retrieval.retrievers import MODES, Format, Mode

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'finetune'")
pytest.importorskip("datasets", reason="needs the extra 'finetune'")
pytest.importorskip("accelerate", reason="needs the extra 'finetune'")

from sentence_transformers import SentenceTransformer  # noqa: E402
from sentence_transformers.base.modules import Router  # noqa: E402
from sentence_transformers.sentence_transformer.modules import (  # noqa: E402
    Dense,
    Normalize,
    Pooling,
    Transformer,
)
from towers import distance, save_sentence_transformer  # noqa: E402

from admire.retrieval import training as retrieval_training  # noqa: E402
from admire.retrieval.training import (  # noqa: E402
    RetrievalTraining,
    contrastive_loss,
    examples,
    finetune_retrieval,
)
from admire.trainer import FitSettings  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")

QUICK = FitSettings(batch_size=4, learning_rate=2e-3, epochs=3, patience=3)
SMALL = RetrievalTraining(soft_negatives=2, hard_negatives=2, fit=QUICK)
PIES = ("night owl", "red lamp", "big bird", "green desk", "blue tree", "small circle")
CPU = Placement("cpu")


# ------------------------------------------------------------------------- a benchmark and models


def passage(name: str, sentence: str, usage: str, pie: str, span: str | None = None) -> Passage:
    return Passage(name, sentence, pie, span or pie, "", usage)


def benchmark(pies: Sequence[str] = PIES, queries: str = "a {} in the tree") -> Split:
    """Literally a PIE stands on things, idiomatically it writes."""
    asked, documents = [], []
    for k, pie in enumerate(pies):
        asked += [
            passage(f"q{k}l", queries.format(pie), "literal", pie),
            passage(f"q{k}i", f"my sister is the {pie} who writes", "idiomatic", pie),
        ]
        documents += [
            passage(f"d{k}l1", f"a big {pie} on the desk", "literal", pie),
            passage(f"d{k}l2", f"the {pie} is in a small square", "literal", pie),
            passage(f"d{k}i1", f"a real {pie} writes at midnight", "idiomatic", pie),
            passage(f"d{k}i2", f"the woman is a {pie}", "idiomatic", pie),
            passage(f"d{k}s", "a sister who writes", "simplification", pie, "sister"),
            passage(f"d{k}m", "a man at midnight", "sense", pie, "man"),
        ]
    return Split(tuple(asked), tuple(documents))


TRAIN = benchmark()
VAL = benchmark(PIES[:4], "the {} of a bird")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose vectors have any length."""
    return save_sentence_transformer(tmp_path_factory.mktemp("models") / "plain")


def save(folder: Path, plain: Path, *after: torch.nn.Module, **pooling: Any) -> Path:
    parts = Transformer(f"{plain}-parts", max_seq_length=64)
    modules = [parts, Pooling(32, **pooling), *after]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder), create_model_card=False)
    return folder


@pytest.fixture(scope="module")
def folder(plain: Path) -> Path:
    """A model whose vectors have unit length."""
    return save(plain.with_name("unit"), plain, Normalize())


@pytest.fixture
def with_config(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the model with other settings in its config_sentence_transformers.json."""

    def copy(name: str = "model", **changes: object) -> Path:
        copied = Path(shutil.copytree(folder, tmp_path / "models" / name))
        path = copied / "config_sentence_transformers.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return copied

    return copy


def opened(folder: Path) -> SentenceEncoder:
    return SentenceEncoder(str(folder), None, CPU)


def figure(folder: Path, split: Split, mode: Mode = "sentence", style: Format = "auto") -> float:
    """nDCG@10 of the model that the folder holds."""
    encoder = open_encoder(f"sbert:{folder}", device="cpu")
    similarities = retrievers.dense(split, encoder, mode, style)
    return float(evaluation.evaluate(split, similarities)["ndcg"].mean())


# --------------------------------------------------------------------------------------- equation 2


def equation_2(
    positives: Sequence[float],
    negatives: Sequence[Sequence[float]],
    temperature: float = 1,
    positive_in_denominator: bool = False,
) -> float:
    losses = []
    for positive, others in zip(positives, negatives, strict=True):
        above = math.exp(positive / temperature)
        below = 0.0
        for other in others:
            below += math.exp(other / temperature)
        if positive_in_denominator:
            below += above
        losses.append(-math.log(above / below))
    return sum(losses) / len(losses)


COSINES = st.floats(-1, 1)


@st.composite
def cosines(draw: st.DrawFn) -> tuple[list[float], list[list[float]]]:
    batch, width = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rows = st.lists(COSINES, min_size=width, max_size=width)
    return (
        draw(st.lists(COSINES, min_size=batch, max_size=batch)),
        draw(st.lists(rows, min_size=batch, max_size=batch)),
    )


def double(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@given(cosines())
def test_the_loss_is_equation_2_as_it_is_printed(given_cosines):
    positives, negatives = given_cosines
    found = contrastive_loss(double(positives), double(negatives))
    assert found.shape == ()
    assert float(found) == pytest.approx(equation_2(positives, negatives), abs=1e-9)


@given(cosines(), st.floats(0.02, 3), st.booleans())
def test_temperature_and_the_positive_below_the_line_are_as_written_out(
    given_cosines, temperature, positive_in_denominator
):
    positives, negatives = given_cosines
    found = contrastive_loss(
        double(positives),
        double(negatives),
        temperature=temperature,
        positive_in_denominator=positive_in_denominator,
    )
    wanted = equation_2(positives, negatives, temperature, positive_in_denominator)
    assert float(found) == pytest.approx(wanted, abs=1e-9)


@given(COSINES, COSINES)
def test_with_one_negative_the_printed_loss_is_the_difference_of_the_cosines(positive, negative):
    found = contrastive_loss(double([positive]), double([[negative]]))
    assert float(found) == pytest.approx(negative - positive, abs=1e-12)


@given(cosines(), st.floats(0.02, 3))
def test_with_the_positive_below_the_line_it_is_cross_entropy(given_cosines, temperature):
    positives, negatives = double(given_cosines[0]), double(given_cosines[1])
    logits = torch.cat([positives[:, None], negatives], dim=1) / temperature
    first = torch.zeros(len(positives), dtype=torch.long)
    found = contrastive_loss(
        positives, negatives, temperature=temperature, positive_in_denominator=True
    )
    assert float(found) == pytest.approx(
        float(torch.nn.functional.cross_entropy(logits, first)), abs=1e-9
    )


@pytest.mark.parametrize("positive_in_denominator", [False, True])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_gradients_of_the_loss_are_right(temperature, positive_in_denominator):
    drawn = torch.Generator().manual_seed(0)
    positives = 2 * torch.rand(3, generator=drawn, dtype=torch.float64) - 1
    negatives = 2 * torch.rand(3, 4, generator=drawn, dtype=torch.float64) - 1
    assert torch.autograd.gradcheck(
        lambda p, n: contrastive_loss(
            p, n, temperature=temperature, positive_in_denominator=positive_in_denominator
        ),
        (positives.requires_grad_(), negatives.requires_grad_()),
    )


def test_the_loss_of_small_temperatures_is_finite():
    found = contrastive_loss(torch.tensor([1.0]), torch.tensor([[-1.0, 1.0]]), temperature=1e-3)
    assert float(found) == pytest.approx(0, abs=1e-6)


# ----------------------------------------------------------------------------------------- examples


def test_there_is_one_example_for_each_query_in_their_order():
    found = examples(TRAIN, SMALL)
    assert tuple(one.query for one in found) == TRAIN.queries


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("soft", "hard"), [(3, 2), (1, 1), (0, 2), (4, 0)])
def test_positives_soft_and_hard_negatives_are_what_the_paper_says(seed, soft, hard):
    settings = RetrievalTraining(
        soft_negatives=soft, hard_negatives=hard, fit=replace(QUICK, seed=seed)
    )
    for one in examples(TRAIN, settings):
        assert relevant(one.query, one.positive)
        assert len(one.negatives) == soft + hard
        assert all(d.idiom != one.query.idiom for d in one.negatives[:soft])
        assert all(d.idiom == one.query.idiom for d in one.negatives[soft:])
        assert not any(relevant(one.query, d) for d in one.negatives[soft:])
        assert len(set(one.negatives)) == soft + hard  # there are enough, so none comes twice


def test_the_case_of_a_pie_does_not_make_two_of_it():
    documents = tuple(
        replace(d, idiom=d.idiom.upper()) if d.idiom == PIES[0] else d for d in TRAIN.documents
    )
    for one in examples(replace(TRAIN, documents=documents), SMALL)[:2]:
        assert one.positive.idiom == "NIGHT OWL"
        assert {d.idiom for d in one.negatives[2:]} == {"NIGHT OWL"}
        assert "NIGHT OWL" not in {d.idiom for d in one.negatives[:2]}


def test_every_positive_and_negative_is_drawn_at_times():
    positives: set[str] = set()
    hard: set[str] = set()
    soft: set[str] = set()
    for seed in range(100):
        one = examples(benchmark(PIES[:3]), replace(SMALL, fit=replace(QUICK, seed=seed)))[1]
        positives.add(one.positive.id)
        soft |= {d.id for d in one.negatives[:2]}
        hard |= {d.id for d in one.negatives[2:]}
    assert positives == {"d0i1", "d0i2", "d0s", "d0m"}
    assert hard == {"d0l1", "d0l2"}
    assert soft == {d.id for d in benchmark(PIES[:3]).documents if d.idiom != PIES[0]}


def test_the_same_seed_draws_the_same_examples_and_another_seed_others():
    def drawn(seed: int) -> list[Any]:
        return examples(TRAIN, replace(SMALL, fit=replace(QUICK, seed=seed)))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def without(usages: Sequence[str], pie: str = PIES[0]) -> Split:
    """The benchmark without documents of these usages of a PIE."""
    kept = tuple(d for d in TRAIN.documents if d.idiom != pie or d.usage not in usages)
    return replace(TRAIN, documents=kept)


def test_a_query_without_hard_negatives_is_left_out():
    found = examples(without(["literal"]), SMALL)
    # Without literal documents the literal query has no positive, the idiomatic no hard negative.
    assert [one.query for one in found] == list(TRAIN.queries[2:])


def test_where_no_hard_negatives_are_wanted_none_are_needed():
    settings = replace(SMALL, hard_negatives=0)
    found = examples(without(["literal"]), settings)
    assert [one.query for one in found] == list(TRAIN.queries[1:])


def test_a_query_without_a_positive_is_left_out():
    found = examples(without(["idiomatic", "simplification", "sense"]), SMALL)
    assert [one.query for one in found] == list(TRAIN.queries[2:])


@pytest.mark.parametrize("seed", range(4))
def test_few_hard_negatives_are_taken_twice(seed):
    settings = replace(SMALL, hard_negatives=5, fit=replace(QUICK, seed=seed))
    for one in examples(TRAIN, settings):
        hard = one.negatives[2:]
        assert len(hard) == 5
        assert all(d.idiom == one.query.idiom and not relevant(one.query, d) for d in hard)


def test_each_of_few_hard_negatives_is_taken_before_any_comes_again():
    for seed in range(10):
        settings = replace(SMALL, hard_negatives=3, fit=replace(QUICK, seed=seed))
        for one in examples(TRAIN, settings):
            if one.query.usage == "idiomatic":  # it has two hard negatives
                assert sorted(Counter(d.id for d in one.negatives[2:]).values()) == [1, 2]


def test_too_few_documents_of_other_pies_are_an_error():
    few = benchmark(PIES[:2])
    assert len(examples(few, replace(SMALL, soft_negatives=6))) == 4
    with pytest.raises(UserError, match=r"7 soft negatives.*only 6 documents.*'night owl'"):
        examples(few, replace(SMALL, soft_negatives=7))


@pytest.mark.parametrize("kept", ["literal", "idiomatic"])
def test_nothing_to_learn_from_is_an_error(kept):
    documents = tuple(d for d in TRAIN.documents if d.usage == kept)
    with pytest.raises(UserError, match="No query has a positive and a hard negative"):
        examples(replace(TRAIN, documents=documents), SMALL)


# ----------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"soft_negatives": -1}, "cannot be below 0"),
        ({"hard_negatives": -1}, "cannot be below 0"),
        ({"soft_negatives": 0, "hard_negatives": 0}, "must be negatives"),
        ({"temperature": 0.0}, r"temperature cannot be 0\.0"),
        ({"temperature": -1.0}, r"temperature cannot be -1\.0"),
        ({"temperature": math.nan}, "temperature cannot be nan"),
        ({"temperature": math.inf}, "temperature cannot be inf"),
    ],
)
def test_training_settings_that_mean_nothing_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        RetrievalTraining(**changes)


def test_the_least_that_negatives_may_be():
    RetrievalTraining(soft_negatives=0, hard_negatives=1)
    RetrievalTraining(soft_negatives=1, hard_negatives=0)


def losses(caplog: pytest.LogCaptureFixture) -> list[float]:
    lines = [r.getMessage() for r in caplog.records if r.name == "admire"]
    found = [re.fullmatch(r"Epoch (\d+): loss (\S+), validation \S+", line) for line in lines]
    matches = [match for match in found if match]
    assert [int(match[1]) for match in matches] == list(range(1, len(matches) + 1))
    return [float(match[2]) for match in matches]


# ------------------------------------------------------------------------ training for retrieval


@pytest.mark.parametrize("mode", MODES)
def test_training_lowers_the_loss_and_keeps_the_epoch_that_is_best_on_validation(
    folder, tmp_path, caplog, mode
):
    brisk = replace(QUICK, learning_rate=5e-3)
    settings = replace(SMALL, mode=mode, temperature=0.1, fit=brisk)
    with caplog.at_level(logging.INFO, "admire"):
        found = finetune_retrieval(opened(folder), TRAIN, VAL, settings, tmp_path / "out")
    first, *_, last = losses(caplog)
    assert last < first
    assert len(found) == 4
    assert found[0] == pytest.approx(figure(folder, VAL, mode), abs=1e-6)
    assert max(found[1:]) == pytest.approx(figure(tmp_path / "out", VAL, mode), abs=1e-6)


def test_validation_is_what_retrieve_gives_for_a_model_that_does_not_normalise(plain, tmp_path):
    uneven = save(tmp_path / "uneven", plain, Dense(32, 32, activation_function=None))
    found = finetune_retrieval(opened(uneven), TRAIN, VAL, SMALL, tmp_path / "out")
    assert found[0] == pytest.approx(figure(uneven, VAL), abs=1e-6)
    assert max(found[1:]) == pytest.approx(figure(tmp_path / "out", VAL), abs=1e-6)


@pytest.mark.parametrize("style", ["instruct", "prompt", "plain"])
def test_validation_gives_the_instruction_in_the_format_that_is_asked_for(folder, tmp_path, style):
    settings = replace(SMALL, mode="instruction+span", style=style, fit=replace(QUICK, epochs=1))
    found = finetune_retrieval(opened(folder), TRAIN, VAL, settings, tmp_path / "out")
    assert found[1] == pytest.approx(
        figure(tmp_path / "out", VAL, "instruction+span", style), abs=1e-6
    )


def test_the_same_seed_trains_the_same_model_and_another_seed_another(folder, tmp_path):
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        settings = replace(SMALL, fit=replace(QUICK, epochs=2, seed=seed))
        finetune_retrieval(opened(folder), TRAIN, VAL, settings, tmp_path / name)
    assert distance(tmp_path / "one", tmp_path / "same") == 0
    assert distance(tmp_path / "one", tmp_path / "other") > 1e-4


@pytest.mark.parametrize(
    "changes", [{"positive_in_denominator": True}, {"temperature": 0.05}, {"hard_negatives": 0}]
)
def test_settings_of_the_loss_matter(folder, tmp_path, changes):
    quick = replace(SMALL, fit=replace(QUICK, epochs=1))
    finetune_retrieval(opened(folder), TRAIN, VAL, quick, tmp_path / "out")
    finetune_retrieval(opened(folder), TRAIN, VAL, replace(quick, **changes), tmp_path / "other")
    assert distance(tmp_path / "out", tmp_path / "other") > 1e-4


def killed_in_the_second_epoch(folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate, asked = evaluation.evaluate, []

    def third_is_killed(*arguments: Any) -> Any:
        asked.append(arguments)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return evaluate(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "evaluate", third_is_killed)
        with pytest.raises(KeyboardInterrupt):
            finetune_retrieval(opened(folder), TRAIN, VAL, SMALL, out)


def test_a_killed_training_for_retrieval_goes_on(folder, tmp_path, monkeypatch):
    finetune_retrieval(opened(folder), TRAIN, VAL, SMALL, tmp_path / "whole")
    killed_in_the_second_epoch(folder, tmp_path / "out", monkeypatch)
    finetune_retrieval(opened(folder), TRAIN, VAL, SMALL, tmp_path / "out")
    assert distance(tmp_path / "out", tmp_path / "whole") <= 1e-5


@pytest.mark.parametrize("change", [{"temperature": 0.2}, {"positive_in_denominator": True}])
def test_a_training_with_another_loss_does_not_go_on_from_a_killed_one(
    folder, tmp_path, monkeypatch, change
):
    other = replace(SMALL, **change)
    finetune_retrieval(opened(folder), TRAIN, VAL, other, tmp_path / "whole")
    killed_in_the_second_epoch(folder, tmp_path / "out", monkeypatch)
    finetune_retrieval(opened(folder), TRAIN, VAL, other, tmp_path / "out")
    assert distance(tmp_path / "out", tmp_path / "whole") == 0


def test_splits_without_anything_to_learn_from_are_refused(folder, tmp_path):
    documents = tuple(d for d in TRAIN.documents if d.usage == "literal")
    with pytest.raises(UserError, match="No query has a positive and a hard negative"):
        finetune_retrieval(
            opened(folder), replace(TRAIN, documents=documents), VAL, SMALL, tmp_path / "out"
        )


def test_a_span_beyond_the_models_limit_is_named(folder, tmp_path):
    long = replace(TRAIN.queries[0], sentence="big " * 70 + TRAIN.queries[0].sentence)
    train = replace(TRAIN, queries=(*TRAIN.queries, replace(long, id="long")))
    with pytest.raises(UserError, match="'night owl' lies beyond its limit of 64 tokens"):
        finetune_retrieval(
            opened(folder), train, VAL, replace(SMALL, mode="span"), tmp_path / "out"
        )


# -------------------------------------------------- what is trained on is what evaluation compares


def steady(encoder: SentenceEncoder) -> SentenceEncoder:
    """The encoder without dropout, so that it gives in training what it gives else."""
    for module in encoder.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return encoder


def unit(vectors: Any) -> np.ndarray:
    array = np.asarray(vectors, dtype=float)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def seen_by_the_loss(
    encoder: SentenceEncoder, settings: RetrievalTraining, out: Path, patch: pytest.MonkeyPatch
) -> np.ndarray:
    """Cosines of each example's query with its positive and its negatives, in the first step."""
    steps: list[np.ndarray] = []

    def listen(positives: torch.Tensor, negatives: torch.Tensor, **options: Any) -> torch.Tensor:
        both = torch.cat([positives[:, None], negatives], dim=1)
        steps.append(both.detach().numpy().copy())
        return contrastive_loss(positives, negatives, **options)

    patch.setattr(retrieval_training, "contrastive_loss", listen)
    one_step = replace(settings, fit=replace(QUICK, epochs=1, batch_size=len(TRAIN.queries)))
    finetune_retrieval(encoder, TRAIN, VAL, one_step, out)
    assert len(steps) == 1
    return steps[0]


def of_evaluation(
    encoder: SentenceEncoder, settings: RetrievalTraining, style: Format
) -> np.ndarray:
    """The same cosines from the encoder's own vectors."""
    rows = []
    for one in examples(TRAIN, replace(settings, fit=QUICK)):
        asked = encoder.encode_queries([retrievers.as_query(one.query, settings.mode, style)])
        texts = [document.sentence for document in (one.positive, *one.negatives)]
        documents = encoder.encode_texts(texts, role="document")
        rows.append(unit(documents) @ unit(asked[0]))
    return np.array(rows)


def in_order(rows: np.ndarray) -> np.ndarray:
    """The trainer shuffles examples; they go by the positive's cosine."""
    return rows[np.argsort(rows[:, 0])]


def assert_trained_as_evaluated(
    encoder: SentenceEncoder,
    settings: RetrievalTraining,
    out: Path,
    patch: pytest.MonkeyPatch,
    style: Format = "plain",
) -> None:
    wanted = of_evaluation(steady(encoder), settings, style)
    found = seen_by_the_loss(encoder, settings, out, patch)
    assert found.shape == wanted.shape
    assert np.allclose(in_order(found), in_order(wanted), atol=1e-5)


@pytest.mark.parametrize(
    ("mode", "style"),
    [
        *((mode, "plain") for mode in MODES),
        *((mode, style) for mode in MODES[2:] for style in ("instruct", "prompt")),
    ],
)
def test_the_loss_sees_what_evaluation_compares(folder, tmp_path, monkeypatch, mode, style):
    settings = replace(SMALL, mode=mode, style=style)
    assert_trained_as_evaluated(opened(folder), settings, tmp_path / "out", monkeypatch, style)


@pytest.mark.parametrize("mode", ["span", "instruction+span"])
def test_vectors_of_spans_are_those_of_the_encoder_before_the_first_step(
    plain, tmp_path, monkeypatch, mode
):
    encoder, steps = steady(opened(plain)), []
    states = retrieval_training.span_states

    def listen(*arguments: Any) -> torch.Tensor:
        steps.append(states(*arguments))
        return steps[-1]

    monkeypatch.setattr(retrieval_training, "span_states", listen)
    asked = [retrievers.as_query(query, mode, "plain") for query in TRAIN.queries]
    wanted = encoder.encode_queries(asked)
    settings = replace(SMALL, mode=mode, fit=replace(QUICK, epochs=1, batch_size=12))
    finetune_retrieval(encoder, TRAIN, VAL, settings, tmp_path / "out")
    (found,) = (torch.nn.functional.normalize(step).detach().numpy() for step in steps)
    gaps = np.abs(found[:, None] - wanted[None]).max(axis=-1)
    assert sorted(gaps.argmin(axis=1)) == list(range(len(asked)))
    assert gaps.min(axis=1).max() < 1e-5


@pytest.mark.parametrize("mode", ["sentence", "instruction+span"])
def test_models_named_e5_are_trained_with_its_prompts(with_config, tmp_path, monkeypatch, mode):
    encoder = opened(with_config("tiny-e5"))
    assert encoder.model.prompts == E5_PROMPTS
    settings = replace(SMALL, mode=mode)
    bare = opened(with_config("tiny"))
    gap = of_evaluation(steady(bare), settings, "plain") - of_evaluation(
        steady(encoder), settings, "plain"
    )
    assert np.abs(gap).max() > 1e-3  # the prompts do make a difference
    assert_trained_as_evaluated(encoder, settings, tmp_path / "out", monkeypatch)


@pytest.mark.parametrize(
    ("mode", "prompts", "default"),
    [
        ("sentence", {"query": "who is ", "document": "the "}, None),
        ("span", {"query": "who is ", "document": "the "}, None),
        ("sentence", {"passage": "a real ", "document": "the "}, None),
        ("sentence", {"other": "a green ", "document": "the "}, "other"),
        ("span", {"other": "a green ", "document": "the "}, "other"),
        ("sentence", {"query": "who is ", "passage": "a real "}, None),
        ("sentence", {"query": "who is ", "corpus": "a real "}, None),
        ("sentence", {"other": "a green "}, "other"),
        ("span", {"other": "a green ", "query": "who is "}, "other"),
    ],
)
def test_models_with_prompts_are_trained_with_them(
    with_config, tmp_path, monkeypatch, mode, prompts, default
):
    encoder = opened(with_config(prompts=prompts, default_prompt_name=default))
    settings = replace(SMALL, mode=mode)
    assert_trained_as_evaluated(encoder, settings, tmp_path / "out", monkeypatch)


@pytest.mark.parametrize("mode", ["sentence", "span"])
def test_what_comes_after_the_pooling_is_trained_too(plain, tmp_path, monkeypatch, mode):
    torch.manual_seed(1)
    made = save(tmp_path / "dense", plain, Dense(32, 12), Normalize())
    settings = replace(SMALL, mode=mode)
    assert_trained_as_evaluated(opened(made), settings, tmp_path / "out", monkeypatch)


def test_a_model_that_leaves_instructions_out_of_its_pooling_is_not_trained_to_pool_them(
    plain, tmp_path, monkeypatch
):
    """As INSTRUCTOR has it."""
    made = save(tmp_path / "tiny-instructor", plain, Normalize(), include_prompt=False)
    assert_trained_as_evaluated(opened(made), SMALL, tmp_path / "out", monkeypatch, "prompt")
    settings = replace(SMALL, mode="instruction+sentence")
    with pytest.raises(UserError, match=r"cannot be trained with --query instruction\+sentence"):
        finetune_retrieval(opened(made), TRAIN, VAL, settings, tmp_path / "other")


@pytest.mark.parametrize("mode", ["sentence", "span"])
def test_vectors_that_are_cut_are_so_in_training(with_config, tmp_path, monkeypatch, mode):
    encoder = opened(with_config(truncate_dim=8))
    settings = replace(SMALL, mode=mode)
    assert_trained_as_evaluated(encoder, settings, tmp_path / "out", monkeypatch)


@pytest.mark.parametrize(
    "mode",
    [
        "sentence",
        "span",
    ],
)
def test_each_of_two_towers_is_trained_on_its_texts(plain, tmp_path, monkeypatch, mode):
    routes = []
    for seed in (4, 5):
        tower = Transformer(f"{plain}-parts", max_seq_length=64)
        torch.manual_seed(seed)
        for weight in tower.parameters():
            weight.data += 0.05 * torch.randn_like(weight)
        routes.append([tower, Pooling(32)])
    both = SentenceTransformer(modules=[Router.for_query_document(*routes)], device="cpu")
    both.save(str(tmp_path / "both"), create_model_card=False)
    settings = replace(SMALL, mode=mode)
    encoder = opened(tmp_path / "both")
    assert_trained_as_evaluated(encoder, settings, tmp_path / "out", monkeypatch)


# -------------------------------------------------------------------------------------- the command

TEST = benchmark(PIES[2:], "a {} is at the lamp")
COMMAND = ["--device", "cpu", "--epochs", 2, "--batch-size", 6, "--learning-rate", 2e-3]
COMMAND += ["--soft-negatives", 2, "--hard-negatives", 2]


@pytest.fixture
def data(tmp_path) -> Path:
    for name, content in (("train", TRAIN), ("val", VAL), ("test", TEST)):
        write_split(tmp_path / "data", name, content)
    return tmp_path / "data"


def summary(folder: Path, mode: Mode = "sentence") -> dict[str, dict[str, float]]:
    """Figures on the test split, by group."""
    encoder = open_encoder(f"sbert:{folder}", device="cpu")
    found = evaluation.summarise_queries(
        evaluation.evaluate(TEST, retrievers.dense(TEST, encoder, mode))
    )
    return {row["group"]: row for row in found.to_dict("records")}


def test_the_command_writes_the_model_and_prints_a_table(capsys, tmp_path, data, folder):
    out = tmp_path / "out"
    code, printed, err = run(
        capsys,
        "train",
        "retriever",
        data,
        "--out",
        out,
        "--encoder",
        f"sbert:{folder}",
        *COMMAND,
    )
    assert code == 0, err
    assert re.search(r"Epoch 2: loss \d", err)
    assert f"Wrote {out}" in err
    found = summary(out)
    lines = [line for line in printed.splitlines() if re.search(r"\b(before|after)\b", line)]
    assert [re.findall(r"before|after|all|idiomatic|literal", line) for line in lines] == [
        [model, group] for model in ("before", "after") for group in found
    ]
    for line, group in zip(lines[3:], found, strict=True):
        assert f"{found[group]['ndcg']:.1f} ± 0.0" in line
        assert f"{found[group]['r_precision']:.1f} ± 0.0" in line
    assert SentenceTransformer(str(out), device="cpu").encode("a night owl").shape == (32,)


def test_the_command_with_seeds_writes_each_and_prints_mean_and_deviation_as_json(
    capsys, tmp_path, data, folder
):
    out = tmp_path / "out"
    options = ["--query", "span", "--seeds", 2, "--seed", 0, "--json", *COMMAND]
    code, printed, err = run(
        capsys,
        "train",
        "retriever",
        data,
        "--out",
        out,
        "--encoder",
        f"sbert:{folder}",
        *options,
    )
    assert code == 0, err
    assert sorted(path.name for path in out.iterdir()) == ["seed-0", "seed-1"]
    assert distance(out / "seed-0", out / "seed-1") > 1e-4
    rows = json.loads(printed)
    before = summary(folder, "span")
    after = [summary(out / name, "span") for name in ("seed-0", "seed-1")]
    assert [(row["model"], row["group"]) for row in rows] == [
        (model, group) for model in ("before", "after") for group in before
    ]
    for row in rows:
        for name in ("r_precision", "ndcg"):
            runs = [before] if row["model"] == "before" else after
            values = [one[row["group"]][name] for one in runs]
            assert row[name] == pytest.approx(np.mean(values), abs=1e-6)
            assert row[f"{name}_deviation"] == pytest.approx(np.std(values), abs=1e-6)
    assert any(row["ndcg_deviation"] > 0 for row in rows)


def test_the_command_begins_with_the_seed_that_is_given(capsys, tmp_path, data, folder):
    shared = ["train", "retriever", data, "--encoder", f"sbert:{folder}", *COMMAND]
    assert run(capsys, *shared, "--out", tmp_path / "two", "--seeds", 2, "--seed", 7)[0] == 0
    assert run(capsys, *shared, "--out", tmp_path / "one", "--seed", 8)[0] == 0
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["seed-7", "seed-8"]
    assert distance(tmp_path / "two" / "seed-8", tmp_path / "one") == 0


def test_the_command_gives_the_figures_that_retrieve_gives(capsys, tmp_path, data, plain):
    uneven = save(tmp_path / "uneven", plain, Dense(32, 32, activation_function=None))
    encoder = f"sbert:{uneven}"
    code, printed, err = run(
        capsys, "retrieve", data, "--encoder", encoder, "--device", "cpu", "--out",
        tmp_path / "run", "--json",
    )  # fmt: skip
    assert code == 0, err
    wanted = {row["group"]: row["ndcg"] for row in json.loads(printed)}
    code, printed, err = run(
        capsys, "train", "retriever", data, "--out", tmp_path / "out", "--encoder", encoder,
        "--json", *COMMAND,
    )  # fmt: skip
    assert code == 0, err
    found = {r["group"]: r["ndcg"] for r in json.loads(printed) if r["model"] == "before"}
    assert found == pytest.approx(wanted, abs=1e-6)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one message of a command that ends with exit code 2."""
    code, printed, err = run(capsys, *arguments)
    assert (code, printed) == (2, "")
    assert err.startswith("admire: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_the_command_refuses_an_encoder_that_cannot_be_fine_tuned(capsys, tmp_path, data):
    out = tmp_path / "out"
    err = refused(capsys, "train", "retriever", data, "--out", out, "--encoder", "e5")
    assert "--encoder: 'e5' cannot be fine-tuned" in err
    assert "sbert:" in err
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--temperature", 0], "temperature cannot be 0.0"),
        (["--epochs", 0], "epochs cannot be 0"),
        (["--batch-size", 0], "batch_size cannot be 0"),
        (["--soft-negatives", 0, "--hard-negatives", 0], "must be negatives"),
        (["--soft-negatives", 500], "500 soft negatives are asked for"),
    ],
)
def test_the_command_refuses_settings_that_mean_nothing(
    capsys, tmp_path, data, folder, options, message
):
    shared = ["train", "retriever", data, "--out", tmp_path / "out", "--device", "cpu"]
    assert message in refused(capsys, *shared, "--encoder", f"sbert:{folder}", *options)
    assert not (tmp_path / "out").exists()


def test_the_command_trains_at_least_one_model(capsys, tmp_path, data, folder):
    shared = ["train", "retriever", data, "--out", tmp_path / "out"]
    code, _, err = run(capsys, *shared, "--encoder", f"sbert:{folder}", "--seeds", 0)
    assert code == 2
    assert "--seeds" in err


def test_the_command_names_an_out_that_cannot_be_written(capsys, tmp_path, data, folder):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "out"
    shared = ["train", "retriever", data, "--out", out, "--encoder", f"sbert:{folder}"]
    code, _, err = run(capsys, *shared, *COMMAND)
    assert code == 2
    assert "out: cannot be written" in err


def test_a_missing_package_is_named_with_its_extra(capsys, tmp_path, data, folder, monkeypatch):
    for name in ("admire.trainer", "admire.retrieval.training"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "datasets", None)
    shared = ["train", "retriever", data, "--out", tmp_path / "out"]
    err = refused(capsys, *shared, "--encoder", f"sbert:{folder}", *COMMAND)
    assert "Fine-tuning needs datasets, of the extra 'finetune'" in err
    assert not (tmp_path / "out").exists()
