"""The client for the OpenAI API and every server that speaks it (vLLM, Ollama, llama.cpp)."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from admire.errors import UserError

if TYPE_CHECKING:
    import openai

OFFICIAL = "https://api.openai.com/v1"
RETRIES = 6
THINKING_TOKENS = 4096
"""How many tokens of reasoning a model may use before it answers."""


class OpenAIChat:
    """A chat model behind an OpenAI-compatible server.

    After 429, 5xx, timeouts and broken connections, the openai package itself tries again up to
    ``RETRIES`` times, with exponential backoff and jitter, or after the server's Retry-After.

    Args:
        url: the server's address; None is that of ``OPENAI_BASE_URL``, or else the official one.
        key: None is that of ``OPENAI_API_KEY``.
        timeout: in seconds, of each try.
        parallel: how many prompts may be asked at the same time.

    Raises:
        UserError: the address or the key cannot be right, or the official API has no key.
    """

    def __init__(
        self,
        model: str,
        *,
        url: str | None = None,
        key: str | None = None,
        timeout: float = 60.0,
        retries: int = RETRIES,
        parallel: int = 8,
    ):
        self.model = model
        self.name = f"openai:{model}"
        self.url = url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL
        if not _is_address(self.url):
            raise UserError(
                f"'{without_secrets(self.url)}' is not a server's address like "
                "http://localhost:8000/v1.",
                "llm_url",
            )
        self.identity = f"{self.name}@{without_secrets(self.url)}"
        self.parallel = parallel
        self._key = (key or os.environ.get("OPENAI_API_KEY") or "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise UserError(
                f"{self.name}: the key holds characters that no key has. Check OPENAI_API_KEY."
            )
        if not self._key and without_secrets(self.url) == OFFICIAL:
            raise UserError(
                f"{self.name} needs a key: set OPENAI_API_KEY. For a server of your own, give its "
                "address. The chat model embedded needs no key.",
                "llm_url",
                "llms",
            )
        self._timeout, self._retries = timeout, retries
        self._refused: set[str] = set()  # options that this model refuses

    @cached_property
    def _client(self) -> openai.OpenAI:
        import openai

        address = urlsplit(self.url)
        return openai.OpenAI(
            api_key=self._key or "none",  # the package insists on one, other servers need none
            base_url=address._replace(query="", fragment="").geturl(),
            default_query=dict(parse_qsl(address.query)),
            timeout=self._timeout,
            max_retries=self._retries,
        )

    def ask(
        self, prompt: str, *, temperature: float = 0.0, max_tokens: int = 64, seed: int = 0
    ) -> str:
        """See :class:`admire.llm.ChatModel`."""
        import openai

        options = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        try:
            answer = self._complete(prompt, options)
            # A compatible server may send anything, whatever the types say.
            return str(answer.choices[0].message.content or "")
        except openai.OpenAIError as error:
            raise self._explained(error) from error
        except (ValueError, AttributeError, IndexError, TypeError) as error:
            raise UserError(
                f"{self.name}: the answer holds no message. Is {without_secrets(self.url)} the "
                "address of an OpenAI-compatible API? (It often ends in /v1.)"
            ) from error

    def _complete(self, prompt: str, options: dict[str, Any]) -> Any:
        """The server's answer; options that the model refuses are left out.

        OpenAI's models since o1 reason first. They refuse a temperature, because they always
        sample, and their reasoning counts towards the tokens of the answer.
        """
        import openai

        while True:
            # Read once, because other threads add to what is refused.
            sent = [name for name in options if name not in self._refused]
            taken = {name: options[name] for name in sent}
            if "max_tokens" not in sent:
                taken["max_completion_tokens"] = options["max_tokens"] + THINKING_TOKENS
            try:
                return self._client.chat.completions.create(
                    model=self.model, messages=[{"role": "user", "content": prompt}], **taken
                )
            except openai.BadRequestError as error:
                if error.param not in sent:  # a list, because a server may send anything
                    raise
                self._refused.add(error.param)

    def _explained(self, error: openai.OpenAIError) -> UserError:
        """The error in words that say what to do, without the key or the server's web page."""
        import openai

        where = without_secrets(self.url)
        settings: list[str] = []
        response = getattr(error, "response", None)
        far_off = response is not None and "retry-after" in response.headers
        again = f" after {self._retries} retries" if self._retries and not far_off else ""
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            reason = f"{where} refused the key. Check OPENAI_API_KEY."
        elif isinstance(error, openai.NotFoundError):
            reason = (
                f"{where} does not know the model '{self.model}' (retired, perhaps), or is not an "
                "API's address. Name another model, or another server."
            )
            settings = ["llms", "llm_url"]
        elif isinstance(error, openai.RateLimitError):
            reason = (
                f"{where} answers 'too many requests'{again}. Wait, or check the account's quota."
            )
        elif isinstance(error, openai.APITimeoutError):
            reason = (
                f"{where} did not answer within {self._timeout:g} s{again}. Is the server busy?"
            )
        elif isinstance(error, openai.APIConnectionError):
            reason = f"{where} cannot be reached. Is the server running?"
        elif isinstance(error, openai.InternalServerError):
            reason = (
                f"{where} fails with status {error.status_code}{again}. "
                "Try again later, or look at the server's log."
            )
        else:
            reason = f"{where} refused the request: {self._redacted(str(error))[:300]}"
        return UserError(f"{self.name}: {reason}", *settings)

    def _redacted(self, text: str) -> str:
        """The text without the key and the secrets in the address."""
        address = urlsplit(self.url)
        secrets = [self._key, address.password, *(value for _, value in parse_qsl(address.query))]
        for secret in filter(None, secrets):
            text = text.replace(secret, "***").replace(unquote(secret), "***")
        return text


def _is_address(url: str) -> bool:
    try:
        address = urlsplit(url)
        address.port  # noqa: B018  reading it raises an error if it is not a number
    except ValueError:
        return False
    return address.scheme in ("http", "https") and bool(address.hostname) and url.isprintable()


def without_secrets(url: str) -> str:
    """The address without user name, password and query."""
    url = re.split("[?#]", url)[0]
    shown = re.sub(r"^([a-z]+://)?[^/]*@", r"\1", url)
    return shown.rstrip("/") if _is_address(shown) else shown
