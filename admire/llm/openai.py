"""The client for the OpenAI API and every server that speaks it (vLLM, Ollama, llama.cpp)."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from admire.errors import UserError

if TYPE_CHECKING:
    import openai

OFFICIAL = "https://api.openai.com/v1"
RETRIES = 6


class OpenAIChat:
    """A chat model behind an OpenAI-compatible server.

    429, 5xx, timeouts and broken connections are tried again up to ``RETRIES`` times by the
    openai package itself, with exponential backoff and jitter, or after the server's Retry-After.
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
        address = urlsplit(self.url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise UserError(
                f"'{without_secrets(self.url)}' is not the http(s) address of a server."
            )
        self.identity = f"{self.name}@{without_secrets(self.url)}"
        self.parallel = parallel
        self._key = key or os.environ.get("OPENAI_API_KEY")
        if not self._key and self.url == OFFICIAL:
            raise UserError(
                f"{self.name} needs a key: set OPENAI_API_KEY. For a server of your own give its "
                "address with --llm-url; without either, --llm embedded needs no key."
            )
        self._timeout, self._retries = timeout, retries

    @cached_property
    def _client(self) -> openai.OpenAI:
        import openai

        return openai.OpenAI(
            api_key=self._key or "none",  # servers of one's own need none, the package insists
            base_url=self.url,
            timeout=self._timeout,
            max_retries=self._retries,
        )

    def ask(
        self, prompt: str, *, temperature: float = 0.0, max_tokens: int = 64, seed: int = 0
    ) -> str:
        """See :class:`admire.llm.ChatModel`."""
        import openai

        try:
            answer = self._client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": prompt}],
                temperature=temperature,
                max_tokens=max_tokens,
                seed=seed,
            )
            # A compatible server may send anything, so what the types promise is not relied on.
            return str(answer.choices[0].message.content or "")
        except openai.OpenAIError as error:
            raise self._explained(error) from error
        except (ValueError, AttributeError, IndexError, TypeError) as error:
            raise UserError(
                f"{self.name}: the answer holds no message. Is {without_secrets(self.url)} the "
                "address of an OpenAI-compatible API? (It often ends in /v1.)"
            ) from error

    def _explained(self, error: openai.OpenAIError) -> UserError:
        """The error in words that say what to do, without the key or the server's page."""
        import openai

        where = without_secrets(self.url)
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            reason = f"{where} refused the key. Check OPENAI_API_KEY."
        elif isinstance(error, openai.NotFoundError):
            reason = f"{where} does not know the model '{self.model}', or is not an API's address."
        elif isinstance(error, openai.RateLimitError):
            reason = (
                f"{where} still answers 'too many requests' after {self._retries} retries. "
                "Wait, or check the account's quota."
            )
        elif isinstance(error, openai.APITimeoutError):
            reason = (
                f"{where} did not answer within {self._timeout:g} s, {self._retries} times over."
            )
        elif isinstance(error, openai.APIConnectionError):
            reason = f"{where} cannot be reached. Is the server running?"
        elif isinstance(error, openai.InternalServerError):
            reason = f"{where} fails with status {error.status_code} after {self._retries} retries."
        else:
            reason = f"{where} refused the request: {str(error)[:300]}"
        if self._key:
            reason = reason.replace(self._key, "***")
        return UserError(f"{self.name}: {reason}")


def without_secrets(url: str) -> str:
    """The address without user name, password and query."""
    address = urlsplit(url)
    host = address.netloc.rpartition("@")[2]
    return f"{address.scheme}://{host}{address.path}".rstrip("/")
