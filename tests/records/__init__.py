"""What fits gave before the engine was rebuilt, and a script that compares: `python -m tests.records --help`."""
