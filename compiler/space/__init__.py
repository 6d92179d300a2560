"""The SearchSpace and the rules that make it."""
