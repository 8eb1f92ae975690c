from .pictures import thumbnail
from .write import check_report, write_report

__all__ = ["check_report", "thumbnail", "write_report"]
