"""The pipeline on Spark: traces in, verdicts and measurements out."""
