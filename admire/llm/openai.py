"""The client for the OpenAI API and every server that speaks it (vLLM, Ollama, llama.cpp)."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import httpx2
import openai

from admire.core.errors import UserError
from admire.core.registry import register
from admire.llm.address import api_key, redact, server_address
from admire.llm.chat import (
    PARALLEL,
    SEEING,
    ChatModel,
    Image,
    Price,
    Question,
    Reply,
    ServerError,
    Usage,
)
from admire.llm.client import (
    BrokenOff,
    NoReply,
    TooLong,
    Withheld,
    holds_thoughts,
    open_client,
    read_json,
    read_reply,
    read_target,
    why_empty,
)
from admire.llm.pictures import data_uri

log = logging.getLogger("admire")

RETRIES = 6
TIMEOUT = 60.0  #: default for the seconds that a server may take for a whole answer
THINKING_TOKENS = 4096  #: maximum tokens of reasoning before an answer
LEAST_TOKENS = 16  #: every reply may have so many tokens, because some servers refuse a lower limit
OPTIONAL = ("temperature", "max_tokens", "seed", "response_format", "logprobs")
"""Options that are omitted if a server refuses them."""
WORDS = {"response_format": "response_format|json_schema", "logprobs": r"(?:top_)?logprobs"}
"""Names of refused options in servers' messages, where they differ from the option's name."""
IN_THIS_FORM = "Answer with a JSON object of this schema, and with nothing else:"
REFUSALS: Mapping[int | str, tuple[str, ...]] = {
    "too long": (
        "the question is too long for {where} ({message}). Give the server more context "
        "(llama-server -c 16384), or use smaller images, or captions only.",
        *("image_side", "track"),
    ),
    "blind": (f"it cannot see images ({{message}}). {SEEING}", "track", "llms"),
    "images": ("{where} refused a question with images ({message}). They are: {paths}.",),
    **dict.fromkeys(
        (301, 302, 303, 307, 308),
        ("{where} redirects to another address. Use that address if you trust it.", "llm_url"),
    ),
    **dict.fromkeys((401, 403), ("{where} refused the key{because}. Check OPENAI_API_KEY.",)),
    402: ("{where} reports that the key has no credit left ({message}). Add credit.",),
    404: (
        "{where} does not know the model '{model}'{because}, or is not the address of an API{v1}. "
        "Use another model, or another server.",
        *("llms", "llm_url"),
    ),
    "page": (
        "{where} answered with a web page{title} (status {status}): a gateway, a firewall or a "
        "login is in front of the API. Check the address and the network.",
        "llm_url",
    ),
    413: (
        "the question is too large for {where} (status 413). Use smaller images.",
        *("image_side", "track"),
    ),
    429: ("{where} returned 'too many requests'{again}. Wait, or check the quota.",),
    500: ("{where} failed with status {status}{again}. Try again later.",),
    "other": ("{where} refused the request: {message}",),
}
"""Why a server refuses a question, by status (500 and above are alike) or by what its message says,
and the settings to look at."""


class OpenAIChat(ChatModel):
    """A chat model behind an OpenAI-compatible server.

    After 429, 5xx, timeouts and broken connections, the openai package itself tries again, with
    exponential backoff and jitter, or after the server's Retry-After.

    Args:
        url: the server's address; None is that of ``OPENAI_BASE_URL``, or the official one.
        key: None is that of ``OPENAI_API_KEY``.
        timeout: seconds for each try.

    Raises:
        UserError: the address or the key is invalid, or the official API has no key.
    """

    def __init__(
        self,
        model: str,
        *,
        url: str | None = None,
        key: str | None = None,
        timeout: float | None = None,
        retries: int = RETRIES,
        parallel: int | None = None,
    ):
        self.model = model
        self.name = f"openai:{model}"
        self.address = server_address(url)
        self.identity = f"{self.name}@{self.address.shown}"
        self.parallel = parallel or PARALLEL
        self._key = api_key(key)
        secret = self._key.get_secret_value()
        if not (secret.isascii() and secret.isprintable()):
            raise UserError(
                f"{self.name}: OPENAI_API_KEY contains characters that are invalid in a key."
            )
        if self.address.official and not secret:
            raise UserError(
                f"{self.name} needs a key: set OPENAI_API_KEY. For your own server, give its "
                "address. The chat model embedded needs no key.",
                *("llm_url", "llms"),
            )
        self._timeout, self._retries = timeout or TIMEOUT, retries
        self.accepts_images = True
        self.scores_text = not self.address.official
        self.prefills_reply = False
        """Whether a prompt's last line, if it begins a JSON object, is sent as the start of the
        reply. Few servers continue such a start."""
        name = _THINKS.match(model)
        self._thinks = bool(name)
        self._warned: set[str] = set()
        self.least_tokens = LEAST_TOKENS
        self._refused = {"max_tokens"} if name and name["openai"] else set[str]()

    @cached_property
    def client(self) -> openai.OpenAI:
        """The openai package's client for this server."""
        limits: Any = {"timeout": self._timeout, "retries": self._retries}
        return open_client(self.address, self._key, model=self.name, **limits)

    def price(self, usage: Usage) -> Price | None:
        """See :class:`admire.llm.ChatModel`; by the price lists of genai-prices."""
        if find_spec("genai_prices") is None:
            return None
        import genai_prices

        counted = genai_prices.Usage(
            input_tokens=usage.prompt,
            cache_read_tokens=min(usage.cached, usage.prompt),
            output_tokens=usage.completion,
        )
        url = self.address.shown
        try:
            price = genai_prices.calc_price(counted, self.model, provider_api_url=url)
        except LookupError:
            return None
        return Price(float(price.total_price))

    def ask(self, question: Question) -> Reply:
        """See :class:`admire.llm.ChatModel`.

        Options that the model refuses, such as a temperature, are omitted from then on; a refused
        schema becomes text. If a filter withholds the reply, or it has another form, it is empty.
        If thinking uses it up, the model is asked once more with :data:`THINKING_TOKENS` added, and
        gets them from then on; the tokens of the first reply are not counted. Only servers with
        ``prompt_logprobs``, such as vLLM, rate a target.
        """
        where, started = self.address.shown, time.perf_counter()
        thinks = self._thinks  # another thread may change it meanwhile
        try:
            answer = self._complete(question)
            reply = read_reply(answer, time.perf_counter() - started)
            if question.target:
                rated = read_target(answer, question.target)
                return replace(reply, text=question.target, cut=False, logprobs=rated)
            if reply.cut and not thinks and holds_thoughts(answer, reply.text):
                self._thinks = True
                answer = self._complete(question)
                reply = read_reply(answer, time.perf_counter() - started)
            if not reply.text and (why_none := why_empty(answer)):
                self._warn(why_none)
            return reply
        except openai.OpenAIError as error:
            if why_none := _unanswered(error):
                return self._warn(why_none)
            raise self.explained(error, question) from error
        except Withheld as why:
            if _FILTERED.search(str(why)):
                return self._warn(f"was withheld by a filter ({why})")
            reason = f"{where} {self._redact(why)[:300]}. Try again later, or use another model."
            raise ServerError(f"{self.name}: {reason}", "llms") from why
        except NoReply as why:
            raise ServerError(
                f"{self.name}: the answer has no message, but {self._redact(why)[:200]}. Is "
                f"{where} the address of an OpenAI-compatible API? (It often ends in /v1.)"
            ) from why

    def _warn(self, why: str) -> Reply:
        """Say why a reply is empty, once for each reason, and return such a reply."""
        if (reason := why.partition("(")[0]) not in self._warned:
            self._warned.add(reason)
            hint = " Turn thinking off on the server, or let its parser remove thoughts."
            why = f"{self._redact(Exception(why))[:300]}. Such replies are skipped."
            log.warning("%s: a reply %s%s", self.name, why, hint if "thoughts" in reason else "")
        return Reply("")

    def request(self, question: Question) -> dict[str, Any]:
        """Return the body of a request to ``/chat/completions``.

        OpenAI's models that reason first call the limit ``max_completion_tokens``, and may refuse a
        temperature, because they always sample.
        """
        refused = set(self._refused)  # once, because other threads add to it
        body: dict[str, Any] = {"temperature": question.temperature, "seed": question.seed}
        limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        body[limit] = self.most_tokens(question)
        parts = list(question.parts) if question.images else [question.text]
        if question.schema is not None:
            schema = {"name": "answer", "strict": True, "schema": question.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
            if "response_format" in refused:
                parts.append(f"{IN_THIS_FORM}\n{json.dumps(question.schema)}")
        if question.logprobs and "logprobs" not in refused:
            body |= {"logprobs": True, "top_logprobs": question.logprobs}
        content: str | list[dict[str, Any]] = "\n\n".join(map(str, parts))
        if question.images:
            content = [
                {"type": "text", "text": part}
                if isinstance(part, str)
                else {"type": "image_url", "image_url": {"url": data_uri(part)}}
                for part in parts
            ]
        messages = [{"role": "user", "content": content}]
        if self.prefills_reply and isinstance(content, str):
            lead, _, last = content.rpartition("\n")
            if lead and last.startswith("{"):
                messages = [{"role": "user", "content": lead}]
                messages.append({"role": "assistant", "content": last})
        if question.target:
            messages.append({"role": "assistant", "content": question.target})
            body |= {"add_generation_prompt": False, "continue_final_message": True}
            body["prompt_logprobs"] = 0
        accepted = {name: value for name, value in body.items() if name not in refused}
        return {"model": self.model, "messages": messages, **accepted}

    def most_tokens(self, question: Question) -> int:
        """See :class:`admire.llm.ChatModel`; 1 for a target."""
        if question.target:
            return 1
        thinks = self._thinks or "max_tokens" in self._refused
        most = max(question.max_tokens, self.least_tokens)
        return most + (THINKING_TOKENS if thinks else 0)

    def _complete(self, question: Question) -> Any:
        while True:
            body = self.request(question)
            try:
                # Not chat.completions.create, which validates a body that is known to be valid.
                # That took nearly half of the client's time.
                answer = self.client.post("/chat/completions", body=body, cast_to=httpx2.Response)
                return read_json(answer)
            except _REFUSED as error:
                message, sent = f"{error.message} {error.body}", [o for o in OPTIONAL if o in body]
                refused = [option for option in OPTIONAL if option == error.param]
                if not refused and not _CONTEXT.search(message):
                    marks = {o: re.search(rf"\b(?:{WORDS.get(o, o)})\b", message) for o in sent}
                    places = {option: match.start() for option, match in marks.items() if match}
                    refused = sorted(places, key=places.__getitem__)
                    if not refused and _SCHEMA.search(message):
                        refused = ["response_format"]
                options = [option for option in refused if option in sent]
                if not options or _unanswered(error):
                    raise
                self._refused.add(options[0])

    def explained(self, error: openai.OpenAIError, question: Question) -> UserError:
        """Return the error as a message with a remedy, without key or web page."""
        where, later = self.address.shown, True
        message = self._redact(error)[:300]
        if isinstance(error, openai.APIStatusError):
            if isinstance(error.body, str) and error.body not in message:  # such as TGI's
                message += f": {self._redact(Exception(error.body))[:300]}"
            return self._refusal(error, message, question.images)
        if isinstance(error, openai.APITimeoutError):
            reason = f"did not answer within {self._timeout:g} s{_retried(error)}. Is it busy?"
        elif isinstance(error.__cause__, BrokenOff):
            reason = f"breaks its replies off{_retried(error)} ({self._redact(error.__cause__)})."
        elif isinstance(error.__cause__, httpx2.DecodingError):
            reason = f"returned an answer that cannot be decompressed ({_cause(error)})."
        elif isinstance(error, openai.APIConnectionError):
            reason = f"cannot be reached{_retried(error)} ({_cause(error)}). Is the server running?"
        elif isinstance(error, TooLong):
            reason, later = f"cannot be used: {error}. Is it an OpenAI-compatible API?", False
        else:
            reason, later = f"refused the request: {message}", False
        return ServerError(f"{self.name}: {where} {reason}", later=later)

    def _refusal(
        self, error: openai.APIStatusError, message: str, images: Sequence[Image]
    ) -> UserError:
        """Return the error of an answer whose status is not success; see :data:`REFUSALS`."""
        why: int | str = min(error.status_code, 500)
        page = error.response.text
        is_page = re.match(r"\s*<(?:!|\?xml|html|head)", page, re.I)
        if _CONTEXT.search(message):
            why = "too long"
        elif images and _BLIND.search(message):
            why = "blind"
        elif images and why == 400:
            why = "images"
        elif "insufficient_quota" in (error.code, error.type):
            why = 402
        elif why in (404, 405):
            why = 404
        elif why in range(400, 413) and is_page:
            why = "page"
        title = re.search(r"<title>([^<]{1,80})", self._redact(Exception(page)), re.I)
        where = self.address.shown
        reason, *settings = REFUSALS.get(why, REFUSALS["other"])
        reason = reason.format(
            where=where,
            v1="" if re.search(r"/v\d", where) else f" (that may be {where}/v1)",
            model=self.model,
            message=message,
            because="" if is_page else f" ({message})",
            status=error.status_code,
            title=f" '{title[1].strip()}'" if title else "",
            again=_retried(error),
            paths=", ".join(str(image.path) for image in images),
        )
        return ServerError(f"{self.name}: {reason}", *settings, later=why in (429, 500))

    def _redact(self, error: Exception) -> str:
        """Return the error's text without secrets, which is stored in it, for tracebacks."""
        message = redact(str(error), (self._key, *self.address.secrets))
        error.args = (message,)
        return message


_THINKS = re.compile(
    r"(?:.*/)?(?:(?P<openai>o\d|gpt-[5-9])|gpt-oss|deepseek-r(?:\d|easoner)|"
    r"qwen3(?!.*(?:instruct|coder)))",
    re.IGNORECASE,
)
"""Names of models that reason first. Others are detected by what they refuse, or by a reply that
thoughts use up."""
_CONTEXT = re.compile(r"(?i)context[ _](?:length|size|window)|maximum context|too many tokens")
_SCHEMA = re.compile(
    r"(?i)schema|grammar|structured.?output|json.?(?:mode|object)|guided|response.?format|"
    r"additionalProperties|\benum\b|format.?enforcer"
)
_REFUSED = openai.BadRequestError, openai.UnprocessableEntityError, openai.NotFoundError
"""Errors that may be about an option: OpenRouter finds no model that supports it."""
_BLIND = re.compile(
    r"mmproj|not (?:a )?(?:multimodal|vision)|"
    r"(?:image|vision|multimodal)[\w ]*\b(?:not|n['’]t) (?:\w+ )?support|"
    r"(?:not|n['’]t) support[\w ]*\b(?:image|vision)",
    re.IGNORECASE,
)

_FILTERED = re.compile(
    r"content.?(?:filter|management|policy|exists risk)|responsible.?ai|data.?inspection|"
    r"inappropriate content|moderation|guardrail|\bflagged\b|(?<![a-z])safety(?![a-z])|"
    r"usage guidelines|敏感",  # that is "sensitive"
    re.IGNORECASE,
)
"""What servers say of questions that their filters refuse: Azure, OpenAI, DeepSeek, Qwen, …"""


def _unanswered(error: openai.OpenAIError) -> str:
    """Return why a reply is empty: a filter, or Groq's failure to write JSON; empty for others."""
    if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 403, 422):
        return ""
    body = error.body if isinstance(error.body, Mapping) else {"message": error.body}
    if "failed_generation" in str(body):
        return "was not written in the form that was asked for"
    # Not all of the body: it may repeat the question.
    reasons = map(str, (error.code, error.type, body.get("message"), body.get("detail")))
    filtered = (t for t in reasons if _FILTERED.search(t) and not t.lstrip().startswith("<"))
    return next((f"was withheld by a filter ({t[:300]})" for t in filtered), "")


def _retried(error: openai.OpenAIError) -> str:
    """Return how often the package retried, and how long the server asks to wait."""
    request, response = getattr(error, "request", None), getattr(error, "response", None)
    retries = "0" if request is None else request.headers.get("x-stainless-retry-count", "0")
    text = "" if retries == "0" else f" after {retries} retries"
    if response is not None and "retry-after" in response.headers:
        text += f" and asks to wait (Retry-After: {response.headers['retry-after']})"
    return text


def _cause(error: BaseException) -> str:
    """Return the network's error, at the end of a chain of errors."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return str(error) or type(error).__name__


def _hide(record: logging.LogRecord) -> bool:
    """Remove user name, password and query from the addresses that httpx2 logs."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            f"{value.scheme}://{value.netloc.decode()}{value.path}"
            if isinstance(value, httpx2.URL)
            else value
            for value in record.args
        )
    return True


logging.getLogger("httpx2").addFilter(_hide)


def _status() -> str:
    if os.environ.get("OPENAI_BASE_URL"):
        return "server of OPENAI_BASE_URL"
    return "yes (key set)" if os.environ.get("OPENAI_API_KEY") else "no: set OPENAI_API_KEY"


@register(
    "chat",
    "openai",
    takes="MODEL",
    about="the OpenAI API, or a compatible server",
    needs=("key",),
    size="none here",
    licence="the service's terms",
    status=_status,
    pull=lambda: "its server has the weights",
)
def open_openai(
    model: str,
    *,
    url: str | None = None,
    timeout: float | None = None,
    parallel: int | None = None,
    asked: bool = True,
) -> OpenAIChat:
    """Return the model of OpenAI's API or a compatible server."""
    key = None if asked else "none"
    return OpenAIChat(model, url=url, key=key, timeout=timeout, parallel=parallel)
