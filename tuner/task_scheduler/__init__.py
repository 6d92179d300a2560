"""How trials are shared out among Tasks."""
