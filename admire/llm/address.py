"""Addresses of chat servers: parsed once, shown without secrets, and trusted with a key or not."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import SecretStr

from admire.core.errors import UserError

OFFICIAL = "https://api.openai.com/v1"
SHORT = 4  #: secrets with fewer characters are only removed where they are whole words


@dataclass(frozen=True)
class Address:
    """The address of a chat server.

    Attributes:
        url: for requests, without the query.
        shown: without user name, password and query; for messages, records and cache keys.
        secrets: what no message may contain: user name, password, their encoded form in requests,
            and the values in the query.
    """

    url: SecretStr
    query: SecretStr
    shown: str
    secrets: tuple[SecretStr, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an address; refuse one that is invalid, or whose login has separators in it."""
        text = text.strip()
        start, colon, rest = text.partition("://")
        authority = re.split("[/?#]", rest)[0]
        if "@" in rest[len(authority) :] or authority.count("@") > 1:
            raise UserError(
                "The address of the chat server has an @ that does not end its user name and "
                "password. Write /, ?, # and @ in them, and @ elsewhere, as %2F, %3F, %23 and %40.",
                "llm_url",
            )
        try:
            parts = urlsplit(text)
            host = parts.hostname or ""
            parts.port  # noqa: B018  reading it raises an error if it is not a number
        except ValueError:
            parts, host = urlsplit(""), ""
        valid = parts.scheme in ("http", "https") and re.fullmatch(r"[\w.:-]+", host)
        if not (valid and text.isprintable() and not re.search(r"[\s\\]", text)):
            start = start + colon if start.isalpha() and colon else ""
            safe = f"{start}…" if "@" in text else re.split("[?#]", text)[0]
            raise UserError(
                f"'{safe}' is not a valid address like http://localhost:8000/v1.", "llm_url"
            )
        place = parts.netloc.rpartition("@")[2]
        return cls(
            SecretStr(parts._replace(query="", fragment="").geturl()),
            SecretStr(parts.query),
            f"{parts.scheme}://{place}{parts.path}".rstrip("/"),
            tuple(map(SecretStr, filter(None, dict.fromkeys(_secrets(parts))))),
        )

    @property
    def official(self) -> bool:
        """Whether it is OpenAI's own."""
        return self.shown == OFFICIAL

    @property
    def on_this_machine(self) -> bool:
        """Whether it is an address of this machine."""
        host = urlsplit(self.shown).hostname or ""
        try:
            address = ip_address(host)
        except ValueError:
            return host == "localhost"
        return address.is_loopback or address.is_unspecified


def _secrets(parts: SplitResult) -> Iterator[str | None]:
    """Yield what is secret in an address, as it is written there and as requests contain it."""
    login = [unquote(part) for part in (parts.username or "", parts.password or "")]
    yield from (parts.username, parts.password, parts.netloc.rpartition("@")[0], *login)
    if any(login):
        yield b64encode(":".join(login).encode()).decode()
    yield from (parts.fragment, parts.query, *(value for _, value in parse_qsl(parts.query)))
    yield from (pair.partition("=")[2] for pair in parts.query.split("&"))


def server_address(url: str | None = None) -> Address:
    """Return the address of a chat server: this one, that of ``OPENAI_BASE_URL``, or OpenAI's."""
    return Address.parse(url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL)


def api_key(key: str | None = None) -> SecretStr:
    """Return this key, or that of ``OPENAI_API_KEY``; it may be empty."""
    return SecretStr((key or os.environ.get("OPENAI_API_KEY") or "").strip())


def lacks_key(url: str | None = None) -> bool:
    """Return whether a server needs a key that is not set: OpenAI's does, others may not."""
    return server_address(url).official and not api_key().get_secret_value()


def check_named_in_file(url: str | None, where: object) -> None:
    """Refuse an untrusted address in the file ``where``, because it would receive the key.

    OpenAI's, that of ``OPENAI_BASE_URL`` and those of this machine are trusted.
    """
    if not url or not api_key().get_secret_value():
        return
    address = Address.parse(url)
    if address.official or address.on_this_machine or address.shown == server_address().shown:
        return
    raise UserError(
        f"{where}: llm_url is {address.shown}, and your key (OPENAI_API_KEY) would be sent there. "
        "If you trust this server, give its address on the command line or in OPENAI_BASE_URL.",
        "llm_url",
    )


def redact(text: str, secrets: Iterable[SecretStr]) -> str:
    """Return the text with ``***`` in place of secrets, the longest first."""
    values = {value for secret in secrets if (value := secret.get_secret_value())}
    for value in sorted(values, key=len, reverse=True):
        if len(value) < SHORT:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "***", text)
        else:
            text = text.replace(value, "***")
    return text
