import pytest

from admire.core.errors import UserError
from admire.core.files import read_table
from admire.data.items import Item
from admire.senses import Sense, given, known_senses, read_senses, sense_table, write_senses
from admire.senses.sense import likelier, mean_probability


def test_data_without_a_sense_is_named():
    with pytest.raises(UserError, match="'night owl'") as caught:
        given(Item("night owl", "…"))
    assert caught.value.settings == ("sense",)


def test_the_mean_is_of_decided_senses_and_a_tie_is_literal():
    senses = [Sense(None, 0.5), Sense("idiomatic", 1.0), Sense("literal", 0.2), Sense("literal", 0)]
    assert mean_probability(senses) == pytest.approx(0.4)
    assert mean_probability(senses[:1]) is None
    assert likelier(0.5, "detector").label == "literal"


def test_a_table_tells_what_was_decided_and_how_often_it_is_right():
    types = ("idiomatic", None, "literal", "literal")
    items = [Item("night owl", s, sentence_type=t) for s, t in zip("ABCD", types, strict=True)]
    senses = [
        Sense("idiomatic", 0.8, 4, 1),
        Sense("literal", 0.2, 1, 4),
        Sense("idiomatic", 1.0, 3, 0, 2),
        Sense(None, 0.5, unparsed=5),
    ]

    table = sense_table(items, senses)

    votes = table[["idiomatic", "literal", "unparsed"]].to_numpy().tolist()
    assert votes == [[4, 1, 0], [1, 4, 0], [3, 0, 2], [0, 0, 5]]
    assert table["confidence"].fillna(-1).tolist() == [0.8, 0.8, 1.0, -1]
    assert table["predicted_type"].isna().tolist() == [False, False, False, True]
    known = known_senses(table)
    assert known["sentence"].tolist() == ["A", "C", "D"]
    assert known["accuracy"].tolist() == [1.0, 0.0, 0.0]


USES = [
    Item("night owl", 'She said "I am a night owl".', "en", sentence_type="idiomatic"),
    Item("pé frio", "Ele é um pé frio.", "pt-br"),
]
TOLD = [Sense("literal", 0.3, 1, 3, 1), Sense(None, 0.5, unparsed=5)]


@pytest.mark.parametrize("last", [TOLD[1], Sense("idiomatic", 0.86, by="detector")])
def test_what_was_written_is_read_again(tmp_path, last):
    path = tmp_path / "senses.tsv"
    write_senses(path, USES, [TOLD[0], last])
    cells = read_table(path, ()).loc[1, ["idiomatic", "unparsed", "by"]]
    assert [*cells] == (["", "", "detector"] if last.by else ["0", "5", ""])
    assert read_senses(path) == (USES, [TOLD[0], last])
