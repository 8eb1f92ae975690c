"""Looking for secrets where none may be: in files, in what was printed and logged, in messages.

with Watch() as watch:
    … what a test does …
assert watch.leaks(folders) == []
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from chats import KEY, PASSWORD, TOKEN

from admire.core.errors import UserError

SECRETS = (KEY, PASSWORD, TOKEN)


class Watch(logging.Handler):
    """What is logged, raised as UserError, or taken from pytest's capture while it is entered."""

    def __enter__(self) -> Watch:
        self._texts: list[tuple[str, str]] = []
        self._errors: list[UserError] = []
        self._patch = pytest.MonkeyPatch()
        raised, taken = UserError.__init__, pytest.CaptureFixture.readouterr

        def note_error(error: UserError, *arguments: Any) -> None:
            raised(error, *arguments)
            self._errors.append(error)

        def note_output(capture: pytest.CaptureFixture) -> Any:
            output = taken(capture)
            self._texts += [("stdout", str(output.out)), ("stderr", str(output.err))]
            return output

        self._patch.setattr(UserError, "__init__", note_error)
        self._patch.setattr(pytest.CaptureFixture, "readouterr", note_output)
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
        self._patch.undo()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "werkzeug":  # a test's server, which was given the address
            self._texts.append((f"the log of {record.name}", self.format(record)))

    def leaks(self, folders: Iterable[Path], secrets: Iterable[str] = SECRETS) -> list[str]:
        """Where secrets, or their first eight characters, were found."""
        errors = ["".join(traceback.format_exception(error)) for error in self._errors]
        texts = [*self._texts, *(("an error", text) for text in errors)]
        contents = [(where, text.encode(errors="replace")) for where, text in texts]
        files = [path for one in folders for path in one.rglob("*") if path.is_file()]
        contents += [(str(path), path.read_bytes()) for path in files]
        return [
            f"{where}: {secret}"
            for where, content in contents
            for secret in secrets
            if secret[:8].encode() in content
        ]
