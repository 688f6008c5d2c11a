"""Code shared by all servers: the listening socket, strict request parsing, and the access guard."""
