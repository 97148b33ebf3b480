"""Measurements that people run on their own machines: a ring of daemons beside a floor."""
