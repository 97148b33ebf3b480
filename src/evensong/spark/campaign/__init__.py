"""Seeded simulations by the thousand, as Spark tasks: what `evensong campaign` does.

`plan` says what a campaign is, `tasks` what an executor does with its seeds, `conduct` keeps the
executors busy and takes what comes back, `store` keeps it where it outlives a kill, `rows` is what
a run leaves behind as a row of a table, and `verdicts` puts the judgements together. A run is
decided by its seed alone, so the tables are the same on one core and on a cluster.
"""
