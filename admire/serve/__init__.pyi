from .app import Service, create_app
from .guard import Limits
from .models import Models
from .server import make_server, run_server

__all__ = ["Limits", "Models", "Service", "create_app", "make_server", "run_server"]
