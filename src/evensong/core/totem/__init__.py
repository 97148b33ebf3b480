"""Totem: total order, membership and recovery on a token-passing ring."""
