"""The tiers between a frontend and the warehouse: events with schemas, audit, mirror, collector (paper, section 4)."""
