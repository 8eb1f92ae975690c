import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import refused

from admire import Item
from admire.data.overlap import digests, parts_of
from admire.encoders.hub import folder_digest
from admire.senses import Setting, Use, open_detector
from admire.senses.settings import Layers

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
for package in ("sentence_transformers", "datasets", "accelerate", "sklearn"):
    pytest.importorskip(package, reason="needs the extras 'finetune' and 'train'")

import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from towers import save_sentence_transformer  # noqa: E402

from admire.encoders.trainer import FitSettings  # noqa: E402
from admire.senses.classifier import Classifier, open_classifier  # noqa: E402
from admire.tasks.training.classifier import (  # noqa: E402
    ClassifierTraining,
    hold_out_compounds,
    train_classifier,
)

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")

SETTINGS: tuple[Setting, Setting] = ("zero_shot", "one_shot")
MWES = ("night owl", "red lamp", "big bird", "green desk", "blue tree", "small circle")


def uses(mwes: Sequence[str] = MWES) -> list[Use]:
    """Literally an MWE stands on things, idiomatically it writes."""
    return [
        Use(Item(mwe, sentence, sentence_type=sense), "the woman is in a square", "a man at night")
        for mwe in mwes
        for sentence, sense in (
            (f"a {mwe} in the tree", "literal"),
            (f"the big {mwe} is on the desk", "literal"),
            (f"my sister is the {mwe} who writes", "idiomatic"),
            (f"a real {mwe} writes at midnight", "idiomatic"),
        )
    ]


TRAIN, HELD = uses(MWES[:4]), uses(MWES[4:])


def quick(setting: Setting, layers: Layers | None = None, **changes) -> ClassifierTraining:
    fit = FitSettings(batch_size=4, learning_rate=3e-3, **changes)
    return ClassifierTraining(setting, layers, max_length=24, fit=fit)


def trained(base: Path, out: Path, setting: Setting, **changes) -> list[float]:
    settings = quick(setting, **changes)
    return train_classifier(str(base), TRAIN, HELD, settings, out, device="cpu")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_sentence_transformer(tmp_path_factory.mktemp("models") / "tiny")
    return folder.with_name("tiny-parts")


@pytest.fixture(scope="module")
def made(base: Path) -> dict[Setting, tuple[Path, list[float]]]:
    """For each setting a classifier's folder, and the figures of its training."""
    options = {"epochs": 10, "patience": 10, "seed": 4}
    folders = {setting: base.with_name(setting) for setting in SETTINGS}
    return {s: (folder, trained(base, folder, s, **options)) for s, folder in folders.items()}


def by_hand(folder: Path, text: str, layers: slice) -> np.ndarray:
    """The logits by transformers alone, of the first token's states in these layers."""
    model = transformers.AutoModel.from_pretrained(folder)
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.inference_mode():
        states = model(**tokens, output_hidden_states=True).hidden_states
    vector = torch.cat([layer[0, 0] for layer in states[layers]])
    shapes = []
    for file in sorted(folder.glob("*_Dense/model.safetensors")):
        head = load_file(file)
        shapes.append(head["linear.weight"].shape)
        vector = head["linear.weight"] @ vector + head["linear.bias"]
    # Of all layers' states there are two linear layers, as in the paper's figure 1.
    assert shapes == ([(32, 64), (2, 32)] if layers.start == 1 else [(2, 32)])
    return vector.numpy()


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("zero_shot", "the woman is in a square a night owl in the tree a man at night"),
        ("one_shot", "a night owl in the tree</s> night owl"),
    ],
)
def test_linear_layers_read_the_first_states_of_all_hidden_layers_or_of_the_last(
    made, base, tmp_path, setting, text
):
    papers, other = ("all", "last") if setting == "zero_shot" else ("last", "all")
    trained(base, tmp_path / "out", setting, layers=other, epochs=1)
    for folder, layers in ((made[setting][0], papers), (tmp_path / "out", other)):
        classifier = open_classifier(folder, device="cpu")
        assert classifier.text(TRAIN[0]) == text
        logits = by_hand(folder, text, slice(-1 if layers == "last" else 1, None))
        assert np.allclose(classifier.model.encode([text])[0], logits, atol=1e-6)
        odds = np.exp(logits)
        (sense,) = classifier.classify(TRAIN[:1])
        assert sense.probability_idiomatic == pytest.approx(odds[0] / odds.sum(), abs=1e-6)


def test_a_sense_is_that_of_the_likelier_logit():
    logits = np.array([[2, 1], [1, 2], [1, 1], [900, 0], [0, 900]], np.float32)
    fixed = SimpleNamespace(encode=lambda texts, **_: logits)
    found = Classifier(fixed, "zero_shot", {}).classify(TRAIN[:5])
    assert [s.label for s in found] == ["idiomatic", "literal", "literal", "idiomatic", "literal"]
    assert {(s.by, s.idiomatic, s.literal) for s in found} == {("detector", 0, 0)}
    p = [s.probability_idiomatic for s in found]
    assert p == pytest.approx([0.7311, 0.2689, 0.5, 1, 0], abs=1e-4)


def tokens(found: Classifier, use: Use) -> list[str]:
    ids = found.model.preprocess([found.text(use)])["input_ids"][0]
    return found.model.tokenizer.convert_ids_to_tokens(ids)


def use(sentence: str, mwe: str = "night owl", previous: str = "", following: str = "") -> Use:
    return Use(Item(mwe, sentence), previous, following)


def test_what_is_too_long_is_cut_at_the_models_length(made):
    long = " ".join(f"a {word}" for word in ("tree", "bird") * 20)
    zero = tokens(open_classifier(made["zero_shot"][0], device="cpu"), use("owl", previous=long))
    assert zero == ["<s>", *long.split()[:22], "</s>"]
    one = open_classifier(made["one_shot"][0], device="cpu")
    assert tokens(one, use(long)) == ["<s>", *long.split()[:19], "</s>", "night", "owl", "</s>"]
    whole = " ".join(long.split()[:19])
    assert tokens(one, use(whole)) == tokens(one, use(long))
    assert len(tokens(one, use("a bird", mwe=long))) == 24  # the MWE alone is too long


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_folder_says_how_it_was_made(made, base, setting):
    folder, figures = made[setting]
    record = json.loads((folder / "admire.json").read_text())
    opened = open_detector(folder)
    assert record == opened.card
    assert opened.identity == folder_digest(folder)
    assert (opened.setting, bool(opened.columns)) == (setting, setting == "zero_shot")
    assert record == asdict(quick(setting, epochs=10, patience=10, seed=4)) | {
        "base": str(base),
        "identity": folder_digest(base),
        "layers": {"zero_shot": "all", "one_shot": "last"}[setting],
        "languages": ["en"],
        "linear_layers": {"zero_shot": 2, "one_shot": 1}[setting],
        "rows": 16,
        "validation_rows": 8,
        "macro_f1": max(figures[1:]),
        "saw": digests(parts_of(use.item for use in (*TRAIN, *HELD))),
    }


@pytest.fixture
def copy(made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made["one_shot"][0], tmp_path / "copy"))


@pytest.mark.parametrize("part", ["model.safetensors", "2_Dense/model.safetensors"])
def test_a_part_that_is_missing_is_named_and_no_pickle_is_read_in_its_place(copy, part):
    pickle = (copy / part).with_name("pytorch_model.bin")
    torch.save(load_file(copy / part), pickle)
    (copy / part).unlink()
    refused(copy, f"'{part}'", read=open_classifier)


@pytest.mark.parametrize("content", ["{", "[]", '{"setting": "few_shot"}'])
def test_a_folder_that_is_no_classifier_is_named(copy, content):
    (copy / "admire.json").write_text(content)
    refused(copy / "admire.json", read=lambda _: open_detector(copy))
    (copy / "admire.json").unlink()
    refused(copy, "A classifier is the folder", read=open_detector)


def test_a_tenth_of_the_mwes_is_held_out_whatever_their_case():
    names = [name for k in range(30) for name in (f"mwe {k}", f"MWE {k}")]
    rows = [Use(Item(name, "a", sentence_type="literal")) for name in names]
    train, held = hold_out_compounds(rows, seed=1)
    assert (len(train), len(held)) == (54, 6)
    assert sorted([*train, *held], key=rows.index) == rows
    names = [{use.item.compound.casefold() for use in part} for part in (train, held)]
    assert not names[0] & names[1]
    assert hold_out_compounds(rows, seed=1) == (train, held)
    assert hold_out_compounds(rows, seed=2) != (train, held)
