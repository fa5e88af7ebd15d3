"""Neural networks with error bars."""
