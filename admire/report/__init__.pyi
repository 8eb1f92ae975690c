from .report import Kind, Plot, Report, Table

__all__ = ["Kind", "Plot", "Report", "Table"]
