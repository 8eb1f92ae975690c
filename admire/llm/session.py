"""The session of a command that asks chat models: opens them, with one cache and one account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from admire.core import registry
from admire.core.errors import UserError
from admire.llm.account import Account
from admire.llm.bound_model import BoundModel
from admire.llm.chat import ChatModel, Usage, inner
from admire.llm.prices import why_unknown
from admire.llm.replies import Replies


class Session(Account):
    """Opens the chat models of a command, and keeps the cache and the account of their replies.

    Args:
        budget: in US dollars, for replies that are not cached; None for no limit. Once it is
            spent, no further question is asked. Pending ones, by default eight at most (see
            ``parallel``), are still answered and paid for. A reply without a token count from its
            server costs nothing.
        fresh: whether to ignore and overwrite replies that were cached before.
        timeout: seconds that a server may take for a whole answer; None is 60.
        parallel: how many questions to ask a server at the same time; None is 8.
        plugins: see :attr:`admire.Settings.plugins`.
        price, most_requests: see :class:`admire.llm.account.Account`.

    Attributes:
        imagines: whether its models make up replies, see :class:`admire.pipeline.forecast.DryRun`.
    """

    imagines = False

    def __init__(
        self,
        budget: float | None = None,
        *,
        fresh: bool = False,
        timeout: float | None = None,
        parallel: int | None = None,
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
        price: tuple[float, ...] | None = None,
        most_requests: int | None = None,
    ):
        super().__init__(budget, price, most_requests)
        self.replies = Replies(fresh=fresh)
        self.plugins = plugins or {}
        self._options = {"timeout": timeout, "parallel": parallel}

    def bind(self, model: ChatModel) -> BoundModel:
        """Return the same model, to be asked through this session.

        Raises:
            UserError: there is a budget and the model's price is unknown.
        """
        bound = BoundModel(inner(model), self, self.replies)
        if self.budget < inf and bound.price(Usage()) is None:
            unknown = f"The price of {bound.name} is unknown ({why_unknown(bound)})"
            raise UserError(f"{unknown}. Give it, or omit the budget.", "price", "budget")
        return bound

    def open(
        self,
        model: Any,
        url: str | None = None,
        dictionaries: Sequence[str] = ("wordnet",),
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> list[Any]:
        """Open the chat models of a name: one, or as many as an earlier run had.

        What is open already is bound to this session. A recording, which is not asked, is returned
        as it is.

        Args:
            model: the name, or a model.
            url: the address of a server, for ``openai:`` models.
            dictionaries: the names of those that ``dictionary`` looks up.
            plugins: settings of plug-ins; None is the session's.

        Raises:
            UserError: no chat model has that name, or a file or key is missing.
        """
        opened = model
        if isinstance(model, str):
            plugin, source = registry.resolve("chat", model)
            options: dict[str, Any] = {"url": url, "dictionaries": dictionaries}
            options |= self._options | {"asked": not self.imagines}
            opened = plugin.open(source, **options | {"plugins": plugins or self.plugins})
        models = opened if isinstance(opened, list) else [opened]
        return [self.bind(each) if hasattr(inner(each), "ask") else each for each in models]


def open_llm(
    name: Any,
    session: Session | None = None,
    url: str | None = None,
    dictionaries: Sequence[str] = ("wordnet",),
) -> Any:
    """Open the chat model of that name, a plug-in, asked through a session of its own.

    - ``embedded``: the model that comes with the extra ``embedded``;
    - ``gguf:PATH``: a local file, run by llama.cpp;
    - ``openai:MODEL``: the official API, or the compatible server at ``url`` or
      ``OPENAI_BASE_URL``;
    - ``recorded:FILE``: replies in a file, see :func:`admire.senses.recorded_replies.open_replies`;
    - ``run:FOLDER``: the replies of a run's chat model;
    - ``dictionary``: the dictionaries only.

    No model is loaded before the first question that is not cached; every reply is cached on
    disk.

    Args:
        name: also a model that is open already.
        session: asks the model; None creates one for it.
        url, dictionaries: see :meth:`Session.open`.

    Raises:
        UserError: no chat model has that name, a file or key is missing, or it is a run of several
            chat models.
    """
    model, *others = (session or Session()).open(name, url, dictionaries)
    if others:
        raise UserError(f"'{name}' contains the replies of {1 + len(others)} chat models.", "llms")
    return model
