"""Transis in one broadcast domain: Lansis [Transis §3, §4]."""
