from .cached import CachedChat
from .chat import ChatModel, ask_each
from .families import FAMILIES, open_llm

__all__ = ["FAMILIES", "CachedChat", "ChatModel", "ask_each", "open_llm"]
