"""Profiles, and the models that they name: each is opened once and used by all."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from admire.apps.report.report import short_name
from admire.core.choices import ProfileName
from admire.core.errors import UserError

if TYPE_CHECKING:
    from admire.encoders import TextEncoder
    from admire.llm import ChatModel
    from admire.rankers.settings import RequestOptions, Settings
    from admire.senses import Detector

Opened = TypeVar("Opened")

FORGOTTEN = 60.0  #: seconds after which it is tried again to open what could not be opened


class OpeningError(UserError):
    """A model cannot be opened, because an extra or a key is missing, say."""


class Models:
    """Everything that is opened. Threads may use it at the same time.

    What cannot be opened raises :class:`OpeningError`, also when it is asked for again soon.

    Args:
        profile: the profile that is loaded in the background and listed first.
        changes: settings that differ from that profile's.
        asking: how chat models are asked; the budget is that of each ranking.
        open_llms, open_encoder: in place of those of a session and of ``admire.encoders``.
    """

    def __init__(
        self,
        profile: ProfileName = "embedded",
        changes: Mapping[str, Any] | None = None,
        asking: RequestOptions | None = None,
        *,
        open_llms: Callable[..., Sequence[ChatModel]] | None = None,
        open_encoder: Callable[..., TextEncoder] | None = None,
    ):
        others = [name for name in get_args(ProfileName) if name != profile]
        self.profiles: tuple[str, ...] = (profile, *others)
        self._changes = dict(changes or {})
        self.asking = asking
        self._openers = open_llms, open_encoder
        self._opened: dict[Any, Any] = {}
        self._failed: dict[Any, tuple[float, UserError]] = {}
        self._locks: defaultdict[Any, threading.Lock] = defaultdict(threading.Lock)

    def settings(self, profile: str) -> Settings:
        """Return the settings of a profile; those of the first with the changes."""
        from admire.rankers.settings import PROFILES

        stack = PROFILES[cast("ProfileName", profile)]
        return replace(stack, **self._changes) if profile == self.profiles[0] else stack

    def keyless(self) -> list[str]:
        """Return the profiles that cannot be used for want of a key."""
        from admire.llm.address import lacks_key

        return [
            name
            for name, stack in zip(self.profiles, map(self.settings, self.profiles), strict=True)
            if lacks_key(stack.llm_url) and any(llm.startswith("openai:") for llm in stack.llms)
        ]

    def llms(self, settings: Settings) -> list[ChatModel]:
        """Return the chat models that the settings name."""
        from admire.llm.session import Session

        asking: Any = vars(self.asking) if self.asking else {}
        opener = self._openers[0] or Session(**asking).open
        how = settings.llm_url, settings.dictionaries, settings.plugins
        return [
            model
            for name in settings.llms
            for model in self._once(("llm", name, how[0]), partial(opener, name, *how))
        ]

    def count_llms(self, profile: str) -> int:
        """Return how many chat models a profile has; a name that is not open counts as one."""
        settings = self.settings(profile)
        keys = (("llm", name, settings.llm_url) for name in settings.llms)
        return sum(len(self._opened.get(key, "1")) for key in keys)

    def open(self, profile: str) -> bool:
        """Open what a profile needs, but no weights; return whether it asks a chat server."""
        settings = self.settings(profile)
        llms = self.llms(settings)
        if settings.compares:
            for name in filter(None, (*settings.encoder, settings.caption_encoder)):
                self.encoder(name, settings)
        self.detector(settings)
        return not all(llm.free for llm in llms)

    def encoder(self, name: str, settings: Settings) -> TextEncoder:
        """Return the encoder of that name, where the settings want it to run."""
        from admire.encoders import open_encoder

        place = {"device": settings.device, "precision": settings.precision}
        opener = partial(self._openers[1] or open_encoder, name, **place)  # type: ignore[arg-type]
        return self._once(("encoder", name, *place.values()), opener)

    def detector(self, settings: Settings) -> Detector | None:
        """Return the detector, with the model that it reads; None if no chat model needs one."""
        from admire.senses import open_detector
        from admire.senses.interpretation import sense_method

        methods = [sense_method(settings.sense, llm) for llm in self.llms(settings)]
        if "detector" not in methods:
            return None
        opener = partial(open_detector, settings.detector)
        return self._once(("detector", settings.detector), opener)

    def steps(self) -> dict[str, Callable[[], None]]:
        """Return by name what loads each model that the first profile needs.

        Local chat models are the last; they read how prompts begin, so that the first question
        takes no longer than the next.
        """
        from admire.data.items import Item
        from admire.embedded.light_detector import LightDetector
        from admire.encoders import Query, open_context_encoder
        from admire.llm import Conversation, Question, converse
        from admire.llm.chat import inner
        from admire.prompts import Prompts
        from admire.senses.dictionaries.entries import look_up_item
        from admire.senses.dictionaries.opening import open_dictionaries

        settings = self.settings(self.profiles[0])
        prompts = Prompts(settings.prompts)
        items = [Item(bird, f"She is an {bird}.") for bird in ("early bird", "odd bird")]

        def begin() -> Conversation[None]:
            # Two of each kind, so that what they share shows.
            yield [
                Question(
                    prompts.about(item, sense, hint=hint),
                    max_tokens=1,
                    task="Reading how prompts begin",
                )
                for sense, hint in product(("idiomatic", "literal"), ((), ("a bird",)))
                for item in items
            ]

        def look_up() -> None:
            look_up_item(open_dictionaries(settings.dictionaries), items[0])  # the first reads them

        def encode(name: str) -> None:
            _without_cache(self.encoder(name, settings)).encode_texts(["Hello"], role="query")

        def detect() -> None:
            detector = self.detector(settings)
            if isinstance(detector, LightDetector):
                for encoder in detector.encoders:
                    reader = _without_cache(open_context_encoder(encoder.name))
                    reader.encode_queries([Query("Hello", span=(0, 5))])

        def read(name: str) -> None:
            for llm in self.llms(replace(settings, llms=(name,))):
                if llm.free and hasattr(inner(llm), "ask"):
                    converse([begin()], inner(llm))

        encoders = (*settings.encoder, settings.caption_encoder) if settings.compares else ()
        return {
            "dictionaries": look_up,
            **{short_name(name): partial(encode, name) for name in encoders if name},
            "detector": detect,
            **{short_name(name): partial(read, name) for name in settings.llms},
        }

    def _once(self, key: Any, opener: Callable[[], Opened]) -> Opened:
        with self._locks[key]:
            if key not in self._opened:
                failed, cause = self._failed.get(key, (-inf, None))
                if not cause or time.monotonic() - failed > FORGOTTEN:
                    try:
                        self._opened[key] = opener()
                    except UserError as error:
                        self._failed[key] = time.monotonic(), (cause := error)
                if cause and key not in self._opened:
                    raise OpeningError(str(cause), *cause.settings) from cause
            return cast("Opened", self._opened[key])


def _without_cache(encoder: Any) -> Any:
    """Return an encoder whose weights are loaded in any case."""
    return getattr(encoder, "encoder", encoder)
