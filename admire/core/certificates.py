"""The certificates that the environment names, by which servers are trusted."""

from __future__ import annotations

import os
import ssl

from admire.core.errors import UserError

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def named_certificates() -> tuple[str, str]:
    """Return the variable that names certificates, and its value, which is empty if none does."""
    named = ((name, os.environ.get(name, "")) for name in VARIABLES)
    return next(filter(all, named), (VARIABLES[0], ""))


def check_certificates() -> None:
    """Refuse certificates that cannot be read. Libraries' own errors do not name the file.

    Raises:
        UserError: the variable, its value and the reason.
    """
    name, place = named_certificates()
    reason: object = ""
    if name == "SSL_CERT_DIR":
        if not any(map(os.path.isdir, place.split(os.pathsep))):
            reason = "not a folder"
    elif os.path.exists(place) and not os.path.isfile(place):  # reading a pipe would take for ever
        reason = "not a file"
    elif place:
        try:
            ssl.create_default_context(cafile=place)
        except OSError as error:
            reason = error.strerror or error
    if reason:
        raise UserError(
            f"{name}: the certificates '{place}' cannot be read ({reason}). Correct it, or unset "
            "it."
        )
