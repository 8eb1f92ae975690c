"""The prompts: one Jinja2 template per prompt and language, ``<prompt>_<language>.j2``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path

import jinja2
import jinja2.sandbox

from admire.core.errors import UserError
from admire.core.progress import visible
from admire.data.items import Item
from admire.data.languages import LANGUAGES, base_language

FOLDER = Path(__file__).parent


class Prompts:
    """The templates of this folder, overridden by those in a user's own folder.

    Texts of the data go through the filter :func:`quoted`, which your own templates should use as
    well: ``Sentence: {{ sentence | quoted }}``. All templates are read at the start, so that the
    fingerprints cover what is rendered, even if a file is edited meanwhile.

    Attributes:
        fingerprints: the SHA-256 of each template by its file name, for the run's record.

    Raises:
        UserError, OSError: the folder does not exist, or a template in it cannot be read.
    """

    def __init__(self, folder: str | Path | None = None):
        if folder is not None and not Path(folder).is_dir():
            raise UserError(f"{folder}: is not a folder of prompt templates.", "prompts")
        content = _read_built_in(FOLDER) | (_read_folder(Path(folder)) if folder else {})
        self.fingerprints = {name: sha256(text).hexdigest() for name, text in content.items()}
        self._templates = _environment(tuple(content.items()))

    def about(self, item: Item, prompt: str, **values: object) -> str:
        """Return the prompt about an item, in the item's language. See :meth:`render`.

        The template gets the ``compound``, the ``sentence``, the ``word`` in V-WSD, the captions of
        the ``sequence``, and these values, such as ``hint``, the glosses of dictionaries.
        """
        item_values: dict[str, object] = {
            "compound": item.phrase,
            "sentence": item.sentence,
            "word": item.word,
            "hint": (),
            "sequence": [" ".join(c.caption.split()) for c in item.sequence if c.caption],
        }
        return self.render(prompt, base_language(item.language), **item_values | values)

    def render(self, prompt: str, language: str, **values: object) -> str:
        """Return the prompt's text in the given language, or in English if that is missing.

        The template also gets the name of the ``language``, empty for English and if unknown.
        """
        try:
            names = [f"{prompt}_{language}.j2", f"{prompt}_en.j2"]
            values["language"] = "" if language == "en" else LANGUAGES.get(language, "")
            return self._templates.select_template(names).render(values).strip()
        except Exception as error:  # a user's template can raise anything
            raise UserError(f"The prompt template '{prompt}' cannot be used: {error}.") from error


def _read_folder(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.j2"))}


_read_built_in = cache(_read_folder)


@lru_cache(maxsize=4)  # so that a server does not compile the templates for each item
def _environment(files: Sequence[tuple[str, bytes]]) -> jinja2.Environment:
    content = dict(files)
    # A template is as trusted as a setting, not as a program: it may come with a data set.
    templates = jinja2.sandbox.ImmutableSandboxedEnvironment(
        # Decoded at its first use, so that damaged templates matter only if they are used.
        loader=jinja2.FunctionLoader(
            lambda name: content[name].decode() if name in content else None
        ),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["quoted"] = quoted
    return templates


def quoted(text: str) -> str:
    """Return a text of the data as a JSON string on one line, from which it cannot break out.

    The first characters of tokens of chat templates (``<|im_end|>``, ``<<SYS>>``, ``[INST]``) and
    invisible ones, such as control characters, become JSON escapes.
    """
    written = visible(json.dumps(text, ensure_ascii=False))
    return re.sub(r"[<\[]", lambda sign: f"\\u{ord(sign[0]):04x}", written)
