"""The Graph, its printer and verifier; a pass a file."""
