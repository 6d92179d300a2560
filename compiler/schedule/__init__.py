"""The Schedule as data; a primitive a file."""
