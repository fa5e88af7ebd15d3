"""The figures of the documentation, drawn from the library itself: `python -m docs.figures`."""
