"""A decision between the two senses, and the table in which ``admire sense`` writes decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from admire.base.errors import UserError
from admire.base.storage import write_whole
from admire.scores.metrics import confidence

if TYPE_CHECKING:
    import pandas as pd

    from admire.data.items import Item, SenseLabel


@dataclass(frozen=True)
class Sense:
    """A decision and the votes that it is based on.

    Attributes:
        label: the sense; None where no vote could be read.
        probability: of the idiomatic sense, from 0 to 1: the share among the votes that could be
            read, or the mean of the detector's heads.
        idiomatic, literal, unparsed: how many votes were for each sense, or could not be read.
    """

    label: SenseLabel | None
    probability: float
    idiomatic: int = 0
    literal: int = 0
    unparsed: int = 0

    @property
    def confidence(self) -> float:
        """How sure the decision is, from 0.5 to 1."""
        return confidence(self.probability)


def mean_probability(senses: Iterable[Sense]) -> float | None:
    """That of several decisions on one use; None where no vote could be read."""
    told = [sense.probability for sense in senses if sense.label]
    return sum(told) / len(told) if told else None


def majority(idiomatic: int, literal: int) -> SenseLabel | None:
    """The sense with more votes; None if there are no votes.

    A tie is literal, because language models often take literal uses for idiomatic ones, and
    hardly ever the reverse.
    """
    if not idiomatic + literal:
        return None
    return "idiomatic" if idiomatic > literal else "literal"


def given(item: Item) -> Sense:
    """The sense that the data gives, as one vote.

    Raises:
        UserError: the data gives none.
    """
    if item.sentence_type is None:
        raise UserError(
            f"'{item.compound}': no sentence_type is given. Let the sense be decided in another "
            "way.",
            "sense",
        )
    idiomatic = int(item.sentence_type == "idiomatic")
    return Sense(item.sentence_type, float(idiomatic), idiomatic, 1 - idiomatic)


def sense_table(items: Sequence[Item], senses: Sequence[Sense]) -> pd.DataFrame:
    """One row for each item: what the data gives, what was decided, the votes and the confidence.

    The columns are compound, sentence, sentence_type (None if not given), predicted_type (None if
    no vote could be read), idiomatic, literal, unparsed (numbers of votes), confidence, from 0.5
    to 1, language, and probability, that of the idiomatic sense.
    """
    import pandas as pd

    return pd.DataFrame(
        {
            "compound": [item.compound for item in items],
            "sentence": [item.sentence for item in items],
            "sentence_type": [item.sentence_type for item in items],
            "predicted_type": [sense.label for sense in senses],
            "idiomatic": [sense.idiomatic for sense in senses],
            "literal": [sense.literal for sense in senses],
            "unparsed": [sense.unparsed for sense in senses],
            "confidence": [round(sense.confidence, 4) for sense in senses],
            "language": [item.language for item in items],
            "probability": [round(sense.probability, 4) for sense in senses],
        }
    )


def write_senses(path: Path, items: Sequence[Item], senses: Sequence[Sense]) -> pd.DataFrame:
    """Write the :func:`sense_table` as a TSV, and return it.

    Its columns are those that :func:`admire.read_items` reads, so its texts are those of the data,
    sign by sign, as in a submission; a spreadsheet may take one for a formula.

    Raises:
        UserError: the file cannot be written.
    """
    from admire.base.files import add_table

    table = sense_table(items, senses)
    with write_whole(path) as file:
        add_table(file, table, separator="\t")
    return table


def read_senses(path: Path) -> tuple[list[Item], list[Sense]]:
    """What :func:`write_senses` wrote: the items, and what was decided of each.

    Older files have neither languages nor probabilities. Their language is guessed from the file's
    name, and the probability follows from the confidence and the predicted sense.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    from admire.base.files import check_columns, read_table
    from admire.data.items import Item, parse_sentence_type
    from admire.data.languages import check_language, guess_language

    table = read_table(path, ("compound", "sentence", "sentence_type", "predicted_type"))
    check_columns(path, table, (*VOTES, "confidence"))
    if table.empty:
        raise UserError(f"{path}: holds no rows.")
    items, senses = [], []
    for number, row in enumerate(table.to_dict("records"), start=1):
        where = f"{path}, row {number}"
        try:
            language = check_language(row.get("language") or guess_language(path))
        except UserError as error:
            raise UserError(f"{where}, language: {error}") from None
        gold = parse_sentence_type(row["sentence_type"], where)
        items.append(Item(row["compound"], row["sentence"], language, sentence_type=gold))
        told = parse_sentence_type(row["predicted_type"], where, "predicted_type")
        if row.get("probability"):
            probability = _share(row["probability"], f"{where}, probability")
        else:
            confidence = _share(row["confidence"], f"{where}, confidence")
            probability = 1 - confidence if told == "literal" else confidence
        votes = [_count(row[column], f"{where}, {column}") for column in VOTES]
        senses.append(Sense(told, probability, *votes))
    return items, senses


VOTES = ("idiomatic", "literal", "unparsed")
"""Columns with numbers of votes."""


def _share(cell: str, where: str) -> float:
    try:
        share = float(cell)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UserError(f"{where}: is '{cell}', not a number from 0 to 1.")
    return share


def _count(cell: str, where: str) -> int:
    if not cell.isdecimal() or len(cell) > 9:
        raise UserError(f"{where}: is '{cell}', not a number of votes.")
    return int(cell)


def known_senses(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of :func:`sense_table` whose sense is given, with the column accuracy (0 or 1)."""
    known = table[table["sentence_type"].notna()]
    return known.assign(accuracy=(known["predicted_type"] == known["sentence_type"]).astype(float))
