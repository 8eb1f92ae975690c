"""Questions by OpenAI's Batch API: submitted, and answered within a day at lower prices."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from admire.base.errors import UserError, Waiting
from admire.base.storage import PATIENCE, cache_dir, only_writer, write_whole
from admire.models.llm.cached import CachedChat
from admire.models.llm.chat import ChatModel, Question, Reply, Unanswered
from admire.models.llm.ledger import check_price
from admire.models.llm.openai import NO_REPLY, OpenAIChat, Withheld, read_reply, without_secrets
from admire.models.llm.prices import Price, estimate, price

if TYPE_CHECKING:
    from openai.types import Batch

log = logging.getLogger("admire")

ENDPOINT: Final = "/v1/chat/completions"
REQUESTS, BYTES = 50_000, 200_000_000
"""The most that OpenAI takes in one file."""
TRIES = 3
"""How often a question that the server fails to answer is put into a batch."""
SHOWN = 5
"""How many reasons for missing answers are told."""
OPEN = ("validating", "in_progress", "finalizing", "cancelling")
TOKEN = "admire"
"""The key of a batch's metadata under which its record's name stands."""


@dataclass
class Record:
    """A batch that is under way, as a file in the cache directory tells it.

    It is written before the batch is submitted, so that a batch is found whenever the process dies.

    Attributes:
        identity: of the chat model that is asked.
        keys: of the questions, in the cache of replies.
        options: what requests have besides their messages.
        id: the server's name for the batch; None until it has been told.
    """

    identity: str
    keys: list[str]
    options: list[str]
    id: str | None = None


@dataclass
class Memory:
    """What batches taught about a chat model, as a file in the cache directory tells it.

    Attributes:
        refusals: parameter, message and options of requests that the server refused to take.
        failures: for questions that failed, how often they did, and what the server said.
    """

    refusals: list[list[Any]] = field(default_factory=list)
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)


class Desk:
    """Where a run's questions wait to go out in batches, one or more for each model.

    A run takes its models to the desk, which first fetches the answers that have come; asks as
    always; and then settles, which submits what is missing and stops the run until it is answered.

    Args:
        budget: in US dollars, what one command may submit; None is no limit.
    """

    def __init__(self, budget: float | None = None):
        self._budget = budget
        self._folder = cache_dir() / "batches"
        self._models: list[BatchedChat] = []

    def take(self, llm: ChatModel) -> ChatModel:
        """The same model, asked by batches; one that has no server is asked as always.

        Raises:
            UserError: the server fails or has refused a batch, or there is a budget and the model's
                price is unknown.
        """
        if self._budget is not None:
            check_price(llm)
        if not (isinstance(llm, CachedChat) and isinstance(llm.model, OpenAIChat)):
            log.info("%s has no Batch API: it is asked directly.", llm.name)
            return llm
        with self._alone():
            model = BatchedChat(llm, self._folder)
            model.fetch()
        self._models.append(model)
        return model

    @property
    def unanswered(self) -> int:
        """How often a model was asked what waits for its answer."""
        return sum(model.unanswered for model in self._models)

    def settle(self) -> None:
        """Submit what the models were asked and have not answered, and stop the run.

        Nothing happens where all is answered.

        Raises:
            Waiting: questions are under way.
            UserError: the server takes no batches, or the budget does not suffice.
        """
        with self._alone():
            self._check_budget()
            under_way = [line for model in self._models for line in model.submit()]
        if under_way:
            raise Waiting(
                f"{'; '.join(under_way)}. Run the same command again later: it goes on from what "
                "has been answered, within 24 hours as a rule."
            )

    def _check_budget(self) -> None:
        if self._budget is None:
            return
        costs = [model.expected() for model in self._models]
        total = sum((cost for cost in costs if cost), Price(0.0))
        if total.dollars > self._budget:
            raise UserError(
                f"The questions that are missing may cost {total}, and the budget is "
                f"${self._budget:g}: nothing was submitted.",
                "budget",
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with only_writer(self._folder, wait=PATIENCE):
            yield


class BatchedChat(CachedChat):
    """A chat model whose questions wait for a batch, unless the cache has the reply."""

    model: OpenAIChat

    def __init__(self, llm: CachedChat, folder: Path):
        super().__init__(llm.model, llm._cache)
        self._folder = folder
        self._fetched: set[str] = set()
        self._waiting: dict[str, Question] = {}
        self.unanswered = 0
        name = hashlib.sha256(self.identity.encode()).hexdigest()[:32]
        self._memory_file = folder / "models" / f"{name}.json"
        self._memory = (
            Memory(**_read(self._memory_file)) if self._memory_file.exists() else Memory()
        )
        for param, message, options in self._memory.refusals:
            self.model.refuse(param, message, dict.fromkeys(options))

    def ask(self, question: Question) -> Reply:
        """See :class:`admire.models.llm.ChatModel`."""
        key = self.key(question)
        reply = self.kept(key)
        if reply is not None:
            return reply
        tries, said = self._memory.failures.get(key, (0, ""))
        if tries >= TRIES:
            raise UserError(
                f"{self.name}: no batch could answer ({said}). Run without the batch, which asks "
                "directly.",
                "batch",
            )
        self._waiting[key] = question
        self.unanswered += 1
        raise Unanswered

    def kept(self, key: str) -> Reply | None:
        """The reply in the cache; one that this command has fetched does not count as kept."""
        reply = super().kept(key)
        return replace(reply, kept=False) if reply and key in self._fetched else reply

    def expected(self) -> Price | None:
        """The most that the questions that wait and are not under way may cost."""
        costs = [
            price(self, estimate(question, self), batched=True)
            for question in self._missing().values()
        ]
        return sum((cost for cost in costs if cost), Price(0.0)) if costs else None

    # ------------------------------------------------------------------------- what has come

    def fetch(self) -> None:
        """Put what has been answered into the cache.

        Raises:
            UserError: the server fails, does not know a batch, or has refused one.
        """
        for path, record in self._records():
            where = without_secrets(self.model.url)
            with self._explaining(
                f"{where} does not know batch {record.id}: it is of another account, perhaps. Its "
                f"questions are asked again without {path}."
            ):
                if record.id is None:
                    record.id = self._found(path.stem)
                    if record.id is None:  # the process died before it was submitted
                        path.unlink()
                        continue
                    _write(path, record)
                batch = self.model.client.batches.retrieve(record.id)
                if batch.status in OPEN:
                    continue
                self._take_answers(batch, record)
            path.unlink()
            if batch.status == "failed":
                reasons = batch.errors.data if batch.errors and batch.errors.data else []
                told = " ".join(str(reason.message) for reason in reasons) or "no reason given"
                said = self.model.redacted(told)[:300]
                raise UserError(
                    f"{self.name}: {where} refused batch {batch.id} ({said}). The same command "
                    "submits it again.",
                    "batch",
                )

    def _found(self, name: str) -> str | None:
        """The server's name for a batch that was submitted under this one, if it was."""
        for batch in self.model.client.batches.list(limit=100):
            if (batch.metadata or {}).get(TOKEN) == name:
                return batch.id
        return None

    def _take_answers(self, batch: Batch, record: Record) -> None:
        answered, failed, asked = 0, [], set(record.keys)
        for name in filter(None, (batch.output_file_id, batch.error_file_id)):
            for line in self.model.client.files.content(name).iter_lines():
                try:
                    told = json.loads(line)
                    known = told["custom_id"] in asked
                    asked.discard(told["custom_id"])  # what is said of it again does not count
                except (ValueError, KeyError, TypeError, RecursionError):
                    known = False
                problem = (
                    self._take(told, record.options)
                    if known
                    else f"says {self.model.redacted(line)[:100]!r}"
                )
                answered += problem is None
                failed += [problem] if problem else []
        self._fetched.update(record.keys)
        _write(self._memory_file, self._memory)
        log.info(
            "%s: batch %s (%s) answered %d of %d questions.",
            self.name,
            batch.id,
            batch.status,
            answered,
            len(record.keys),
        )
        for problem in [*dict.fromkeys(failed)][:SHOWN]:
            log.warning("%s: batch %s: %s", self.name, batch.id, problem)

    def _take(self, told: Mapping[str, Any], options: list[str]) -> str | None:
        """Keep the reply in one line of a batch's files; what was wrong where it has none."""
        from openai.types.chat import ChatCompletion

        key = str(told["custom_id"])
        try:
            response = told.get("response") or {}
            status, body = response.get("status_code"), response.get("body") or {}
            error = body.get("error") or {}
            reply = read_reply(ChatCompletion.construct(**body)) if status == 200 else None
        except Withheld as why:
            return self._failed(key, str(why))
        except NO_REPLY:
            return self._failed(key, "an answer holds no message")
        if reply:
            self.keep(key, replace(reply, batched=True))
            self._memory.failures.pop(key, None)
            return None
        if not response:  # expired or cancelled before its turn
            return str((told.get("error") or {}).get("message") or "not answered")
        param, message = error.get("param"), str(error.get("message"))
        if status in (400, 422) and self.model.refuse(param, message, dict.fromkeys(options)):
            refusal = [param, message, options]
            if refusal not in self._memory.refusals:
                self._memory.refusals.append(refusal)
            return f"{message} It is left out from now on."
        passing = status == 429 or (status or 0) >= 500
        return self._failed(key, f"status {status}: {message}", passing=passing)

    def _failed(self, key: str, said: str, *, passing: bool = False) -> str:
        said = self.model.redacted(said)[:300]
        tries = self._memory.failures.get(key, (0, ""))[0]
        self._memory.failures[key] = (tries + 1 if passing else TRIES, said)
        return said

    # ------------------------------------------------------------------------- what goes out

    def submit(self) -> list[str]:
        """Submit what waits and is not under way; a line for each batch that is waited for.

        Raises:
            UserError: the server takes no batches, or an image cannot be read.
        """
        for file, keys, options in self._files(self._missing()):
            self._send(file, Record(self.identity, keys, sorted(options)))
        lines = [
            f"{self.name}: batch {record.id} with {len(record.keys)} questions is under way"
            for _, record in self._records()
            if not self._waiting.keys().isdisjoint(record.keys)
        ]
        if self._waiting and not lines:  # another run has fetched them meanwhile
            lines.append(f"{self.name}: answers have come meanwhile")
        return lines

    def _missing(self) -> dict[str, Question]:
        """The questions that wait, are not under way and have no reply."""
        under_way = {key for _, record in self._records() for key in record.keys}
        return {
            key: question
            for key, question in self._waiting.items()
            if key not in under_way and super(BatchedChat, self).kept(key) is None
        }

    def _files(
        self, questions: Mapping[str, Question]
    ) -> Iterator[tuple[IO[bytes], list[str], set[str]]]:
        """Files of requests that are small enough, with their questions' keys and their options."""
        rest = deque(questions)
        while rest:
            with tempfile.TemporaryFile() as file:
                keys: list[str] = []
                options: set[str] = set()
                while rest and len(keys) < REQUESTS:
                    body = self.model.request(questions[rest[0]])
                    asked = {"custom_id": rest[0], "method": "POST", "url": ENDPOINT, "body": body}
                    line = json.dumps(asked).encode() + b"\n"
                    if keys and file.tell() + len(line) > BYTES:
                        break
                    file.write(line)
                    keys.append(rest.popleft())
                    options |= body.keys() - {"model", "messages"}
                file.seek(0)
                yield file, keys, options

    def _send(self, file: IO[bytes], record: Record) -> None:
        import openai

        path = self._folder / "open" / f"{uuid.uuid4().hex}.json"
        _write(path, record)
        missing = f"{without_secrets(self.model.url)} has no Batch API. Run without the batch."
        try:
            with self._explaining(missing):
                client = self.model.client
                uploaded = client.files.create(file=(f"{path.stem}.jsonl", file), purpose="batch")
                # Tried once: if the answer is lost on its way, the batch is found by its metadata.
                batch = client.with_options(max_retries=0).batches.create(
                    input_file_id=uploaded.id,
                    endpoint=ENDPOINT,
                    completion_window="24h",
                    metadata={TOKEN: path.stem},
                )
        except UserError as error:
            if isinstance(error.__cause__, openai.APIStatusError) and (
                error.__cause__.status_code < 500
            ):
                path.unlink()  # refused, so there is no batch to look for
            raise
        record.id = batch.id
        _write(path, record)

    def _records(self) -> list[tuple[Path, Record]]:
        """The batches of this model that are under way, as far as it is known."""
        found = [(path, Record(**_read(path))) for path in (self._folder / "open").glob("*.json")]
        return [(path, record) for path, record in found if record.identity == self.identity]

    @contextmanager
    def _explaining(self, missing: str) -> Iterator[None]:
        """Turn the package's errors into ours.

        Args:
            missing: what it means where the server knows nothing at an address.
        """
        import openai

        try:
            yield
        except openai.NotFoundError as error:
            raise UserError(f"{self.name}: {missing}", "batch") from error
        except openai.OpenAIError as error:
            raise self.model.explained(error) from error


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, what: Record | Memory) -> None:
    with write_whole(path) as file:
        json.dump(asdict(what), file)
