"""The gateway: clients of Kafka 0.8 and later read and write the logs of this cluster. Brokers know nothing of it.

Folders: `protocol` (the messages of today's clients), `records` (record batches and 0.7's sets), `numbering` (positions
in a log and the numbers that stand for them); all three are pure.
"""
