"""`streamboost serve`: a process beside the pipelines, for those who watch and label.

It reads what the pipelines publish, writes labels and records through the pipelines' own
connectors, and queues commands. Whatever happens to it, the pipelines go on.
"""
