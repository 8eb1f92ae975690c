"""Fine-tuning for retrieval; what any training does is tested with the shared trainer."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import PIES, pies, write_split
from hypothesis import given
from hypothesis import strategies as st

from admire.core.errors import UserError
from admire.encoders import open_encoder
from admire.encoders.sentence import SentenceEncoder
from admire.encoders.torch_models import Placement
from admire.tasks.retrieval.passages import Split, relevance
from admire.tasks.retrieval.queries import encoder_query
from admire.tasks.retrieval.query_scores import score_queries, summarise_queries
from admire.tasks.retrieval.retrieve import retrieve_split
from admire.tasks.retrieval.settings import (
    InstructionFormat,
    QueryForm,
    RetrieverTraining,
    RetrieveSettings,
)
from admire.tasks.retrieval.similarities import dense

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
for package in ("sentence_transformers", "datasets", "accelerate"):
    pytest.importorskip(package, reason="needs the extra 'finetune'")

from sentence_transformers import SentenceTransformer  # noqa: E402
from sentence_transformers.sentence_transformer import modules as kinds  # noqa: E402
from towers import distance, reconfigured, save_sentence_transformer  # noqa: E402

from admire.encoders.trainer import FitSettings  # noqa: E402
from admire.tasks.retrieval import training as retrieval_training  # noqa: E402
from admire.tasks.retrieval.training import (  # noqa: E402
    contrastive_loss,
    draw_examples,
    train_retriever,
    train_retrievers,
)

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")

QUICK = FitSettings(batch_size=6, learning_rate=5e-3, epochs=2)
SMALL = RetrieverTraining(soft_negatives=2, hard_negatives=2, fit=QUICK)
CPU = Placement("cpu")
TRAIN = pies()
VAL = pies(PIES[:4], "the {} of a bird")
TEST = pies(PIES[2:], "a {} is at the lamp")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_sentence_transformer(tmp_path_factory.mktemp("models") / "plain")


def save(folder: Path, plain: Path, *after: torch.nn.Module, **pooling: Any) -> Path:
    parts = kinds.Transformer(f"{plain}-parts", max_seq_length=64)
    modules = [parts, kinds.Pooling(32, **pooling), *after]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder), create_model_card=False)
    return folder


@pytest.fixture(scope="module")
def folder(plain: Path) -> Path:
    """Save a model whose vectors have unit length."""
    return save(plain.with_name("unit"), plain, kinds.Normalize())


def opened(folder: Path) -> SentenceEncoder:
    return SentenceEncoder(str(folder), None, CPU)


def validated(folder: Path, form: QueryForm, style: InstructionFormat) -> float:
    similarities = dense(VAL, open_encoder(f"sbert:{folder}", device="cpu"), form, style)
    return float(score_queries(VAL, similarities)["ndcg"].mean())


@pytest.mark.parametrize("form", ["sentence", "instruction+span"])
def test_training_is_validated_like_evaluation(folder, tmp_path, form):
    settings = replace(SMALL, query=form, instruction_format="instruct", temperature=0.1)
    before, *after = train_retriever(opened(folder), TRAIN, VAL, settings, tmp_path / "out")
    assert len(after) == 2
    assert before == pytest.approx(validated(folder, form, "instruct"), abs=1e-6)
    # What it learned from is kept in its folder, and another form of instruction is refused.
    assert max(after) == pytest.approx(validated(tmp_path / "out", form, "auto"), abs=1e-6)
    if form != "sentence":
        with pytest.raises(UserError, match="form 'instruct', not 'qwen3'"):
            validated(tmp_path / "out", form, "qwen3")


@st.composite
def cosines(draw: st.DrawFn) -> list[list[float]]:
    width = draw(st.integers(2, 7))
    row = st.lists(st.floats(-1, 1), min_size=width, max_size=width)
    return draw(st.lists(row, min_size=1, max_size=5))


@given(cosines(), st.floats(0.02, 3), st.booleans())
def test_the_loss_is_equation_2(rows, temperature, positive_in_denominator):
    losses = []
    for positive, *others in rows:
        summed = [*others, positive] if positive_in_denominator else others
        denominator = sum(math.exp(cosine / temperature) for cosine in summed)
        losses.append(-math.log(math.exp(positive / temperature) / denominator))
    variant = {"temperature": temperature, "positive_in_denominator": positive_in_denominator}
    tensor = torch.tensor(rows, dtype=torch.float64)
    loss = contrastive_loss(tensor[:, 0], tensor[:, 1:], **variant)
    assert float(loss) == pytest.approx(sum(losses) / len(losses), abs=1e-9)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("soft", "hard"), [(3, 2), (1, 1), (0, 2), (4, 0)])
def test_positives_soft_and_hard_negatives_are_those_of_the_paper(seed, soft, hard):
    fit = replace(QUICK, seed=seed)
    settings = RetrieverTraining(soft_negatives=soft, hard_negatives=hard, fit=fit)
    for example in draw_examples(TRAIN, settings):
        documents = (example.positive, *example.negatives)
        assert len(set(documents)) == 1 + soft + hard  # there are enough, so none comes twice
        (relevant,) = relevance(Split((example.query,), documents))
        assert relevant.tolist() == [True] + [False] * (soft + hard)
        other_pie = [document.idiom != example.query.idiom for document in documents]
        assert other_pie == [False] + [True] * soft + [False] * hard


def test_a_query_without_hard_negatives_is_left_out():
    kept = tuple(d for d in TRAIN.documents if d.idiom != PIES[0] or d.usage != "literal")
    examples = draw_examples(replace(TRAIN, documents=kept), SMALL)
    # Without literal documents the literal query has no positive, the idiomatic no hard negative.
    assert [example.query for example in examples] == list(TRAIN.queries[2:])


def steady(encoder: SentenceEncoder) -> SentenceEncoder:
    for module in encoder.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return encoder


def unit(vectors: Any) -> np.ndarray:
    array = np.asarray(vectors, dtype=float)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def cosines_in_training(
    encoder: SentenceEncoder, settings: RetrieverTraining, out: Path, patch: pytest.MonkeyPatch
) -> np.ndarray:
    """Return cosines of each example's query with its positive and negatives, in the first step."""
    steps: list[np.ndarray] = []

    def record(positives: torch.Tensor, negatives: torch.Tensor, **options: Any) -> torch.Tensor:
        both = torch.cat([positives[:, None], negatives], dim=1)
        steps.append(both.detach().numpy().copy())
        return contrastive_loss(positives, negatives, **options)

    patch.setattr(retrieval_training, "contrastive_loss", record)
    one_step = replace(settings, fit=replace(QUICK, epochs=1, batch_size=len(TRAIN.queries)))
    train_retriever(encoder, TRAIN, VAL, one_step, out)
    (cosines,) = steps
    return cosines


def cosines_in_evaluation(
    encoder: SentenceEncoder, settings: RetrieverTraining, style: InstructionFormat
) -> np.ndarray:
    rows = []
    for example in draw_examples(TRAIN, replace(settings, fit=QUICK)):
        query = encoder_query(example.query, settings.query, style)
        texts = [document.sentence for document in (example.positive, *example.negatives)]
        documents = encoder.encode_texts(texts, role="document")
        rows.append(unit(documents) @ unit(encoder.encode_queries([query])[0]))
    return np.array(rows)


def assert_trained_as_evaluated(
    encoder: SentenceEncoder,
    settings: RetrieverTraining,
    out: Path,
    patch: pytest.MonkeyPatch,
    style: InstructionFormat = "plain",
) -> None:
    expected = cosines_in_evaluation(steady(encoder), settings, style)
    cosines = cosines_in_training(encoder, settings, out, patch)
    assert cosines.shape == expected.shape
    # The trainer shuffles examples; the positive's cosine tells them apart.
    both = [rows[np.argsort(rows[:, 0])] for rows in (cosines, expected)]
    assert np.allclose(*both, atol=1e-5)


PROMPTED = {"prompts": {"query": "who is ", "document": "the "}}
NAMED = {"prompts": {"other": "a green ", "document": "the "}, "default_prompt_name": "other"}


@pytest.mark.parametrize(
    ("form", "style", "changes"),
    [
        ("span", "plain", {}),
        ("instruction+sentence", "prompt", {}),
        ("instruction+span", "instruct", {}),
        ("sentence", "plain", PROMPTED),
        ("span", "plain", NAMED),
    ],
)
def test_training_and_evaluation_compare_the_same_vectors(
    folder, tmp_path, monkeypatch, form, style, changes
):
    settings = replace(SMALL, query=form, instruction_format=style)
    encoder = opened(reconfigured(folder, tmp_path / "models" / "model", **changes))
    assert_trained_as_evaluated(encoder, settings, tmp_path / "out", monkeypatch, style)


def test_in_batch_adds_the_other_queries_positives_to_the_negatives(folder, tmp_path, monkeypatch):
    settings = replace(SMALL, query="sentence", in_batch=True)
    encoder = steady(opened(folder))
    own = cosines_in_evaluation(encoder, settings, "plain")
    examples = draw_examples(TRAIN, replace(settings, fit=QUICK))
    asked = [encoder_query(example.query, "sentence", "plain") for example in examples]
    queries = encoder.encode_queries(asked)
    positives = encoder.encode_texts([e.positive.sentence for e in examples], role="document")
    across = unit(queries) @ unit(positives).T
    cosines = cosines_in_training(encoder, settings, tmp_path / "out", monkeypatch)
    assert cosines.shape == (len(own), own.shape[1] + len(own) - 1)
    expected = np.sort(
        [[*a, *np.delete(row, k)] for k, (a, row) in enumerate(zip(own, across, strict=True))]
    )
    order = [rows[np.lexsort(np.round(rows, 4).T)] for rows in (np.sort(cosines), expected)]
    assert np.allclose(*order, atol=1e-4)


def test_retrieval_and_its_training_leave_a_models_own_prompts_out(plain, folder, tmp_path):
    data, splits = tmp_path / "data", {"train": TRAIN, "val": VAL, "test": TEST}
    for name, split in splits.items():
        write_split(data, name, split)
    prompted = reconfigured(folder, tmp_path / "prompted", **PROMPTED)
    settings = replace(SMALL, fit=replace(QUICK, epochs=1))
    runs, tables = [], []
    for model in (folder, prompted):
        encoder = RetrieveSettings(encoder=f"sbert:{model}", device="cpu")
        runs.append(retrieve_split(str(data), encoder).similarities)
        out = tmp_path / "out" / model.name
        tables.append(train_retrievers(f"sbert:{model}", splits, settings, out, device="cpu"))
    np.testing.assert_allclose(*runs, atol=1e-6)
    pd.testing.assert_frame_equal(*tables)
    assert not any(opened(tmp_path / "out" / "prompted").model.prompts.values())


def test_a_model_that_leaves_instructions_out_of_its_pooling_is_not_trained_to_pool_them(
    plain, tmp_path, monkeypatch
):
    made = save(tmp_path / "tiny-instructor", plain, kinds.Normalize(), include_prompt=False)
    assert_trained_as_evaluated(opened(made), SMALL, tmp_path / "out", monkeypatch, "prompt")
    settings = replace(SMALL, query="instruction+sentence")
    with pytest.raises(UserError, match=r"tiny-instructor: .*'instruction\+sentence'"):
        train_retriever(opened(made), TRAIN, VAL, settings, tmp_path / "other")


def test_models_with_several_seeds_have_a_mean_and_a_deviation(plain, tmp_path):
    # Vectors before and after training must be compared with unit length.
    uneven = save(tmp_path / "uneven", plain, kinds.Dense(32, 32, activation_function=None))
    splits = {"train": TRAIN, "val": VAL, "test": TEST}
    settings = replace(SMALL, query="span", fit=replace(QUICK, epochs=1, seed=7))
    out = tmp_path / "out"
    table = train_retrievers(f"sbert:{uneven}", splits, settings, out, seeds=2, device="cpu")
    assert sorted(path.name for path in out.iterdir()) == ["seed-7", "seed-8"]
    assert distance(out / "seed-7", out / "seed-8") > 1e-4
    names, tables = ["r_precision", "ndcg"], []
    for model in (uneven, out / "seed-7", out / "seed-8"):
        cosines = dense(TEST, open_encoder(f"sbert:{model}", device="cpu"), "span")
        tables.append(summarise_queries(score_queries(TEST, cosines)).set_index("group")[names])
    before, after = tables[0], np.array(tables[1:])
    figures = table.set_index(["model", "group"])
    for model, mean in (("before", before), ("after", after.mean(axis=0))):
        expected = pd.DataFrame(mean, before.index, names)
        pd.testing.assert_frame_equal(figures.loc[model][names], expected, atol=1e-6)
    deviations = figures.loc["after"][[f"{name}_deviation" for name in names]]
    np.testing.assert_allclose(deviations, after.std(axis=0), atol=1e-6)
    assert not figures.loc["before"].filter(like="deviation").any(axis=None)
