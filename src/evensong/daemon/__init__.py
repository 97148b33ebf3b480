"""The daemon: the ring on real sockets. All I/O besides the client is here."""
