"""What a trace measures: load, latency, rotation, fairness and changes, as tables of Spark.

Every function takes tables of the trace (`deliveries`, `sends`, `events`, with `run_id` and `node`)
and returns a table; none of them starts a job. Times of two machines are never compared: what needs
two clocks is left empty, and `clock` says whose times a row has.
"""
