"""Training of sentence encoders; what any training does is tested with the shared trainer."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from sentences import GROUPS, PAIRS, SENSES, sentences

from admire.core.errors import UserError
from admire.encoders.sentence import SentenceEncoder
from admire.encoders.torch_models import Placement
from admire.tasks.sts.evaluation import measure_similarity
from admire.tasks.sts.pairs import Pair
from admire.tasks.sts.rows import TrainingData, as_pairs
from admire.tasks.sts.settings import FROM_PAIRS, Objective, SimilaritySettings

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
for package in ("sentence_transformers", "datasets", "accelerate", "pytorch_metric_learning"):
    pytest.importorskip(package, reason="needs the extra 'finetune'")

from formulas import by_loops, consistency, contrasted, cos, cosent  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from towers import distance, save_sentence_transformer  # noqa: E402

from admire.encoders.trainer import FitSettings  # noqa: E402
from admire.tasks.sts import mwes, training  # noqa: E402
from admire.tasks.sts.settings import SentenceTraining  # noqa: E402
from admire.tasks.sts.training import train_sentences  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")

CPU = Placement("cpu")
QUICK = FitSettings(batch_size=8, learning_rate=3e-3, epochs=1)
TRAIN, VAL = GROUPS[:12], as_pairs(GROUPS[12:])


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_sentence_transformer(tmp_path_factory.mktemp("models") / "plain")


def opened(folder: Path) -> SentenceEncoder:
    return SentenceEncoder(str(folder), None, CPU)


@pytest.fixture
def encoder(plain: Path) -> SentenceEncoder:
    return opened(plain)


@pytest.fixture
def model(encoder: SentenceEncoder) -> SentenceTransformer:
    return encoder.model.eval()


def vectors(model: SentenceTransformer, texts: Sequence[str]) -> torch.Tensor:
    return model(model.preprocess(list(texts)))["sentence_embedding"].double()


def figures(folder: Path, pairs: Sequence[Pair] = VAL) -> dict[str, float]:
    settings = SimilaritySettings(encoder=f"sbert:{folder}", device="cpu")
    scored = measure_similarity(pairs, settings).correlations
    return dict(zip(scored["subset"], scored["spearman"], strict=True))


Built = dict[str, tuple[list[dict[str, Any]], torch.nn.Module]]


@pytest.fixture
def built(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Built]:
    """Rows and loss of each task that the trainer would be given."""

    def build(objective, *, mixed=False, pairs=PAIRS, mwes=(), **changes) -> Built:
        caught: Built = {}

        def catch(model: Any, tasks: Any, *_: Any, **options: Any) -> list[float]:
            caught.update({name: (tasks.rows[name], tasks.loss[name]) for name in tasks.rows})
            return [0.0, 0.0]

        monkeypatch.setattr(training, "fine_tune", catch)
        from_pairs = objective in FROM_PAIRS
        groups = [] if from_pairs else TRAIN
        data = TrainingData(groups, pairs if from_pairs or mixed else [], VAL, mwes)
        settings = SentenceTraining(objective=objective, fit=QUICK, **changes)
        train_sentences(encoder, data, settings, Path("nowhere"))
        return caught

    return build


def computed(model: SentenceTransformer, rows: Sequence[dict[str, Any]], loss: torch.nn.Module):
    """The loss of rows, and what it is a function of: vectors of each column, and labels."""
    names = [name for name in rows[0] if name != "label"]
    texts = [[row[name] for row in rows] for name in names]
    labels = [row["label"] for row in rows] if "label" in rows[0] else []
    with torch.no_grad():
        found = loss(
            [model.preprocess(column) for column in texts], torch.tensor(labels) if labels else None
        )
        return float(found), [vectors(model, column) for column in texts], labels


@pytest.mark.parametrize("temperature", [0.05, 0.2])
def test_cosent_is_ynu_hpccs_equation_1_with_lambda_20(built, model, temperature):
    ((name, (rows, loss)),) = built("cosent", temperature=temperature).items()
    assert name == "pairs"
    found, parts, labels = computed(model, rows, loss)
    assert found == pytest.approx(cosent(*parts, labels, 1 / temperature), abs=1e-5)
    told = {(row["first"], row["second"], row["label"]) for row in rows}
    assert told == {(p.first, p.second, p.similarity) for p in PAIRS}


@pytest.mark.parametrize("objective", sorted(set(get_args(Objective)) - set(FROM_PAIRS)))
def test_correct_paraphrases_join_the_pairs_that_are_mixed_in(built, model, objective):
    rows, loss = built(objective, mixed=True, sts_weight=3.0)["pairs"]
    told = Counter((row["first"], row["second"], row["label"]) for row in rows)
    correct = [(group.sentence, one, 1.0) for group in TRAIN for one in group.correct]
    assert told == Counter([(p.first, p.second, p.similarity) for p in PAIRS] + correct)
    # Where batches are of neighbours, one of correct paraphrases alone would say nothing.
    ours = [(row["first"], row["second"], row["label"]) in correct for row in rows]
    assert ours not in (sorted(ours), sorted(ours, reverse=True))
    found, parts, labels = computed(model, rows, loss)
    assert found == pytest.approx(3 * cosent(*parts, labels, 20), abs=1e-4)
    assert "pairs" not in built(objective)


@pytest.mark.parametrize(("margin", "wanted"), [(None, 0.1), (0.7, 0.7)])
def test_the_triplet_loss_is_ynu_hpccs_equation_2_with_euclidean_distance(
    built, model, margin, wanted
):
    tasks = built("triplet+ranking", margin=margin)
    assert list(tasks) == ["triples", "positives"]
    rows, loss = tasks["triples"]
    figure, (anchors, positives, negatives), _ = computed(model, rows, loss)
    distances = [(anchors - others).norm(dim=1) for others in (positives, negatives)]
    hinges = (distances[0] - distances[1] + wanted).clamp(min=0)
    assert 0 < figure == pytest.approx(float(hinges.mean()), abs=1e-5)


@pytest.mark.parametrize("temperature", [0.05, 0.5])
@pytest.mark.parametrize(("objective", "columns"), [("simcse", 3), ("triplet+ranking", 2)])
def test_ranking_takes_positives_of_other_rows_for_negatives_as_in_equation_2_of_chengyusts(
    built, model, objective, columns, temperature
):
    *_, (rows, loss) = built(objective, temperature=temperature).values()
    found, parts, _ = computed(model, rows[:5], loss)
    assert len(parts) == columns
    assert found == pytest.approx(contrasted(*parts, tau=temperature), abs=1e-5)
    if objective != "simcse":
        correct = {(g.sentence, c) for g in TRAIN for c in g.correct}
        assert {(r["anchor"], r["positive"]) for r in rows} == correct


@pytest.mark.parametrize("objective", ["regression", "self-labelled"])
def test_regression_is_the_squared_error_of_the_cosine(built, model, objective):
    ((_, (rows, loss)),) = built(objective).items()
    figure, (first, second), labels = computed(model, rows, loss)
    errors = [(cos(a, b) - y) ** 2 for a, b, y in zip(first, second, labels, strict=True)]
    assert figure == pytest.approx(np.mean(errors), abs=1e-5)


def test_self_labels_are_the_untrained_models_similarities(built, model):
    ((_, (rows, _)),) = built("self-labelled").items()
    wanted = {}
    for group in TRAIN:
        (correct,), (incorrect,) = group.correct, group.incorrect
        same, other = vectors(model, [correct, incorrect]).detach()
        wanted[group.sentence, correct] = 1.0
        wanted[group.sentence, incorrect] = cos(same, other)
    labels = {(row["first"], row["second"]): row["label"] for row in rows}
    assert labels == pytest.approx(wanted, abs=1e-6)


def test_classification_is_of_u_v_and_their_difference_into_six_classes(built, model):
    ((_, (rows, loss)),) = built("classification").items()
    found, (u, v), labels = computed(model, rows, loss)
    layer = loss.classifier
    assert tuple(layer.weight.shape) == (6, 3 * 32)
    features = torch.cat([u, v, (u - v).abs()], dim=1)
    with torch.no_grad():
        logits = features @ layer.weight.double().T + layer.bias.double()
    picked = logits.log_softmax(dim=1)[range(len(labels)), labels]
    assert found == pytest.approx(-float(picked.mean()), abs=1e-5)
    assert all(isinstance(label, int) for label in labels)


@pytest.mark.parametrize(
    ("margin", "temperature", "wanted"), [(None, 0.05, (20, 0)), (0.2, 0.1, (10, 0.2))]
)
def test_the_consistency_loss_is_built_with_the_settings(built, model, margin, temperature, wanted):
    settings = {"margin": margin, "temperature": temperature}
    ((_, (rows, loss)),) = built("consistent", **settings).items()
    found, parts, _ = computed(model, rows[:6], loss)
    assert found == pytest.approx(consistency(*parts, *wanted), rel=1e-5)


@pytest.mark.parametrize("objective", ["adaptive", "multi-negative"])
@pytest.mark.parametrize(
    ("changes", "margins"), [({}, (0.4, 0.3)), ({"miner_margin": 0.9, "margin": 0.0}, (0.9, 0.0))]
)
def test_the_triplet_losses_are_built_with_the_papers_margins_or_given_ones(
    built, model, objective, changes, margins
):
    ((_, (rows, loss)),) = built(objective, **changes).items()
    found, (texts,), labels = computed(model, rows, loss)
    losses = by_loops(texts, labels, *margins).values()
    above = [hinge for each in losses for hinge in each if hinge > 0]
    expected = list(map(sum, losses)) if objective == "multi-negative" else above
    assert found == pytest.approx(np.mean(expected), abs=1e-4)


def test_sentences_are_learned_with_the_models_prompt_and_their_tokens(built, encoder):
    size = len(encoder.model.tokenizer)
    rows, _ = built("adaptive")["sentences"]
    assert {row["sentence"] for row in rows} == sentences(TRAIN)
    assert len(encoder.model.tokenizer) == size, "tokens are made on demand only"
    encoder.model.prompts = {"query": "query ", "document": "passage "}
    pair = Pair("1", "en", "the red lamp", "my lamp", 0.5)
    tasks = built("adaptive", mixed=True, pairs=[pair], mwe_tokens=True)
    assert {row["sentence"] for row in tasks["sentences"][0]} == {
        "query " + text.replace(f"is a {g.mwe}", f"is a {mwes.token(str(g.mwe))}")
        for g in TRAIN
        for text in (g.sentence, *g.correct, *g.incorrect)
    }
    mixed = [row for row in tasks["pairs"][0] if row["label"] != 1]
    assert mixed == [{"first": "query the IDredlampID", "second": "query my lamp", "label": 0.5}]


@pytest.mark.parametrize("listed", [(), ("red lamp", "big desk")])
def test_expressions_of_pairs_and_of_a_list_become_tokens_too(built, encoder, listed):
    pair = Pair("1", "en", "the red lamp", "my lamp", 0.5, mwe=None if listed else "red lamp")
    rows, _ = built("cosent", pairs=[pair, *PAIRS], mwe_tokens=True, mwes=listed)["pairs"]
    assert rows[0]["first"] == "the IDredlampID"
    added = encoder.model.tokenizer.get_added_vocab().keys()
    assert added >= {mwes.token(mwe) for mwe in listed or ["red lamp"]}
    if listed:
        with pytest.raises(UserError) as caught:
            built("cosent", mwes=listed)
        assert caught.value.settings == ("mwes", "mwe_tokens")


@pytest.mark.parametrize("objective", ["adaptive", "multi-negative", "consistent"])
def test_groups_keep_their_order_where_they_are_not_shuffled(built, objective):
    wanted = [group.sentence for group in TRAIN]
    for shuffle in (False, True):
        ((_, (rows, _)),) = built(objective, shuffle=shuffle).items()
        order = [next(iter(row.values())) for row in rows]
        assert ([text for text in order if text in wanted] == wanted) is not shuffle


@pytest.mark.parametrize(
    ("objective", "changes"),
    [
        ("cosent", {"mwe_tokens": True}),
        ("cosent", {"shuffle": False}),
        ("simcse", {"shuffle": False}),
    ],
)
def test_a_setting_that_an_objective_cannot_heed_is_refused(built, objective, changes):
    with pytest.raises(UserError) as caught:
        built(objective, **changes)
    assert caught.value.settings == tuple(changes)


@pytest.mark.parametrize("objective", ["adaptive", "triplet+ranking", "cosent"])
def test_each_kind_of_objective_trains_and_is_validated_as_sts_scores(plain, tmp_path, objective):
    data = TrainingData(TRAIN, PAIRS[:12] if objective == "triplet+ranking" else [], VAL)
    if objective in FROM_PAIRS:
        data = TrainingData([], PAIRS[:12], PAIRS[12:])
    settings = SentenceTraining(objective=objective, fit=QUICK)
    before, after = train_sentences(opened(plain), data, settings, tmp_path / "out")
    assert before == pytest.approx(figures(plain, data.validation), abs=1e-6)
    assert after == pytest.approx(figures(tmp_path / "out", data.validation), abs=1e-6)
    assert after.keys() == {"all", "sts" if objective in FROM_PAIRS else "idiom"}
    assert distance(tmp_path / "out", plain) > 1e-4


def test_a_separable_task_is_learned_with_tokens_and_two_layers(plain, tmp_path):
    out = tmp_path / "out"
    changes = {"mwe_tokens": True, "last_layers": 2, "max_length": 16}
    fit = replace(QUICK, epochs=5, patience=5)
    settings = SentenceTraining(objective="consistent", fit=fit, **changes)
    encoder = opened(plain)
    before, *history = train_sentences(encoder, TrainingData(TRAIN, [], VAL), settings, out)
    best = max(history, key=lambda figures: figures["all"])
    assert best["all"] > before["all"] + 0.1
    assert figures(out) == pytest.approx(best, abs=1e-6)
    again = SentenceTransformer(str(out), device="cpu")
    kinds = [type(one).__name__ for one in again]
    assert kinds == ["Transformer", "WeightedLayerPooling", "Pooling"]
    assert again[1].layer_weights.tolist() == [1, 1], "these are not learned"
    assert again.max_seq_length == 16
    assert {mwes.token(mwe) for mwe in SENSES} <= set(again.tokenizer.get_added_vocab())
    before = opened(plain).model
    known = len(before.tokenizer)
    mwes.extend(before, SENSES)
    (one,) = again.tokenizer("IDnightowlID", add_special_tokens=False)["input_ids"]
    weights = (m[0].model.get_input_embeddings().weight.detach() for m in (again, before))
    moved = torch.sub(*weights).abs().max(dim=1).values
    assert moved[one] > 1e-3, "tokens are learned"
    assert (moved[:known] == 0).all(), "others stay"
