"""Programs for people on top of tasks: commands, report, page, search, recipes and audit."""
