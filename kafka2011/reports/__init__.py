"""Reports: jobs on Spark that make small tables, and one page, of the events of topics (paper, section 4)."""
