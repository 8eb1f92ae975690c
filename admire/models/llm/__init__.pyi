from .cached import CachedChat
from .chat import ChatModel, Image, Question, Reply, Unanswered, Usage, ask_each, forget
from .families import FAMILIES, open_llm, retired

__all__ = [
    "FAMILIES",
    "CachedChat",
    "ChatModel",
    "Image",
    "Question",
    "Reply",
    "Unanswered",
    "Usage",
    "ask_each",
    "forget",
    "open_llm",
    "retired",
]
