"""The messaging system of the 2011 Kafka paper."""
