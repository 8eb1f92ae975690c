"""Language tags: checked, guessed from paths, and turned into the codes of prompts and tasks."""

from __future__ import annotations

import os
import re
from itertools import product
from pathlib import Path

from admire.base.errors import UserError

LANGUAGES = {
    "ca": "Catalan", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "fr": "French", "gl": "Galician", "hi": "Hindi",
    "ig": "Igbo", "it": "Italian", "ja": "Japanese", "ka": "Georgian",
    "kk": "Kazakh", "ko": "Korean", "nb": "Norwegian", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sr": "Serbian",
    "tr": "Turkish", "uk": "Ukrainian", "uz": "Uzbek", "zh": "Chinese",
}  # fmt: skip
"""Languages whose codes and names are recognised in file names."""

TWO_LETTERS = (
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht "
    "hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky "
    "la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny "
    "oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr "
    "ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi "
    "yo za zh zu xe xp"
)
"""The codes of ISO 639-1, and AdMIRe's own two."""

ADMIRE_1 = ("EN", "PT", "XE", "XP")
ADMIRE_2 = (
    *("ZH", "KA", "EL", "IG", "KK", "NO", "PT-BR", "PT-PT", "RU", "SR", "SK", "SL", "ES-EC"),
    *("TR", "UZ"),
)
"""The codes of the tasks' languages, by which submissions are called."""

_CODES = {name.lower(): code for code, name in LANGUAGES.items()}  # Norwegian → no
_VARIANTS = {"brazil": "br", "portugal": "pt", "ecuador": "ec", "cyrillic": "cyrl", "latin": "latn"}
_ALIASES = {"xe": "en", "xp": "pt", "nb": "no"}  # xe, xp: AdMIRe's extended English and Portuguese


def base_language(tag: str) -> str:
    """Return the code that prompts and models use: ``pt-br`` → ``pt``, ``xe`` → ``en``."""
    code = re.split("[-_]", tag.lower())[0]
    return _ALIASES.get(code, code)


def task_code(tag: str) -> str:
    """Return a task's code of a language, which tells no script: ``pt-br`` → ``PT-BR``."""
    return re.sub("-[A-Z]{4}$", "", tag.upper())


def check_language(tag: str) -> str:
    """Return the tag in lower case with ``-``; refuse what does not look like one.

    Of codes with two letters those of :data:`TWO_LETTERS` are taken, of three all.
    """
    code = re.split("[-_]", tag.lower())[0]
    exists = len(code) != 2 or code in TWO_LETTERS.split()
    if not exists or not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*", tag):
        raise UserError(f"'{tag}' is not a language tag. Give one like en, pt, xe or pt-br.")
    return tag.lower().replace("_", "-")


def guess_language(path: Path) -> str:
    """Guess a language by the end of a file's name, or else of its folder's or that one's folder's.

    Without either it is ``en``.

    ``subtask_a_xp.tsv`` → ``xp``; ``admire_pt/train.tsv`` → ``pt``; ``set.pt-br.csv`` → ``pt-br``;
    ``submission_Turkish.tsv`` → ``tr``; ``submission_Spanish-Ecuador.tsv`` → ``es-ec``.
    """
    resolved = Path(os.path.abspath(path))
    # Names of languages count only in file names: a folder may be called German after a person.
    name = re.search(rf"(?:^|[_.-])({'|'.join(_CODES)})(?:-([a-z]+))?$", resolved.stem.lower())
    if name:
        return "-".join(filter(None, (_CODES[name[1]], _VARIANTS.get(name[2]))))
    stems = (resolved.stem, *(folder.name for folder in resolved.parents[:2]))
    patterns = r"(?:^|[_.-])([a-z]{2})[-_]([a-z]{2}|cyrl|latn)$", r"(?:^|[_.-])([a-z]{2})$"
    for stem, pattern in product(stems, patterns):
        match = re.search(pattern, stem.lower())
        if match and base_language(match[1]) in LANGUAGES:
            return "-".join(match.groups())
    return "en"
