"""The search, and the interfaces that others implement."""
