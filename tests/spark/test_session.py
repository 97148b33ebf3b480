from pyspark.sql import SparkSession


def test_a_session_counts(spark: SparkSession) -> None:
    assert spark.range(1000).groupBy("id").count().count() == 1000
