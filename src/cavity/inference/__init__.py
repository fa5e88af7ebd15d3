"""The engine: one walk over chunks of rows, one update, one declared contract."""
