"""Documentation; its figures are drawn by `python -m docs.figures`."""
