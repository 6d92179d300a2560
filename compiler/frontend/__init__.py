"""ModelProto to Graph, a file per operator family."""
