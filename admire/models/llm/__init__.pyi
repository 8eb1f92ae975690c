from .cached import CachedChat
from .chat import ChatModel, Image, Question, Reply, Unanswered, Usage, ask_each, forget
from .families import open_llm
from .retired import retired

__all__ = [
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
