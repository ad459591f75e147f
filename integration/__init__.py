"""Tests with real ZooKeeper, brokers and Spark, in processes of their own."""
