"""Language tags: checked, taken from paths or detected in texts, and turned into other codes."""

from __future__ import annotations

import logging
import os
import re
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from admire.core.errors import UserError

log = logging.getLogger("admire")

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

OWN_SCRIPTS = "am ar bn fa gu he hy km kn lo ml or pa si ta te th ur"
"""Further languages that are detected, whose scripts none of :data:`LANGUAGES` has."""

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

_CODES = dict(zip(map(str.lower, LANGUAGES.values()), LANGUAGES, strict=True))  # Norwegian → no
_VARIANTS = {"brazil": "br", "portugal": "pt", "ecuador": "ec", "cyrillic": "cyrl", "latin": "latn"}
_ALIASES = {"xe": "en", "xp": "pt", "nb": "no"}  # xe, xp: AdMIRe's extended English and Portuguese


def base_language(tag: str) -> str:
    """Return the code that prompts and models use: ``pt-br`` → ``pt``, ``xe`` → ``en``."""
    code = re.split("[-_]", tag.lower())[0]
    return _ALIASES.get(code, code)


def language_name(tag: str) -> str:
    """Return the name of a tag's language, or the tag itself: ``pt-br`` → ``Portuguese``."""
    return LANGUAGES.get(base_language(tag), tag)


def task_code(tag: str) -> str:
    """Return a task's code of a language, without its script: ``pt-br`` → ``PT-BR``."""
    return re.sub("-[A-Z]{4}$", "", tag.upper())


@lru_cache(maxsize=64)
def check_language(tag: str) -> str:
    """Return the tag in lower case with ``-``; refuse what does not look like one."""
    code = re.split("[-_]", tag.lower())[0]
    exists = len(code) != 2 or code in TWO_LETTERS.split()
    if not exists or not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*", tag):
        raise UserError(f"'{tag}' is not a language tag. Give one like en, pt, xe or pt-br.")
    return tag.lower().replace("_", "-")


_SET_WORDS = "subtask|task|admire|train|dev|test|eval|extended|sample|blind|gold|data|submission"
"""The rest of a file's name that begins with its language."""


def named_language(path: Path) -> str | None:
    """Return the language that a file's name ends or begins with, or else its folders' end with.

    None if none of these names a language. ``subtask_a_xp.tsv`` → ``xp``; ``admire_pt/train.tsv`` →
    ``pt``; ``set.pt-br.csv`` → ``pt-br``; ``submission_Spanish-Ecuador.tsv`` → ``es-ec``;
    ``PT-BR_subtask_a.tsv`` → ``pt-br``.
    """
    resolved = Path(os.path.abspath(path).lower())
    stem = resolved.stem
    # Names of languages count only in file names: a folder may be called German after a person.
    names, begins = "|".join(_CODES), rf"[_.-]+(?:{_SET_WORDS})(?![a-z])"
    for pattern in (
        rf"(?:^|[_.-])({names})(?:-([a-z]+))?$",
        rf"^({names})(?:-([a-z]+))?{begins}",
    ):
        if name := re.search(pattern, stem):
            return "-".join(filter(None, (_CODES[name[1]], _VARIANTS.get(name[2]))))
    code, variant = "([a-z]{2})", "[-_]([a-z]{2}|cyrl|latn)"
    ends = rf"(?:^|[_.-]){code}{variant}$", rf"(?:^|[_.-]){code}$"
    in_file = *ends, rf"^{code}{variant}{begins}", rf"^{code}{begins}"
    folders = resolved.parent.name, resolved.parent.parent.name
    for text, pattern in (*product([stem], in_file), *product(folders, ends)):
        match = re.search(pattern, text)
        if match and base_language(match[1]) in LANGUAGES:
            return "-".join(match.groups())
    return None


def language_of(text: str) -> str | None:
    """Detect the language of a text; None if it is none of these, or cannot be told."""
    code, probability = _identifier().classify(text)
    return base_language(code) if probability >= 0.5 else None


def detect_language(text: str) -> str:
    """Return :func:`language_of`, or ``en``; log any other language."""
    tag = language_of(text) or "en"
    if tag != "en":
        log.info("The language is detected: %s (%s).", language_name(tag), tag)
    return tag


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages({*LANGUAGES, *OWN_SCRIPTS.split()} & set(identifier.nb_classes))
    return identifier
