"""`streamboost serve`: a separate web server process for monitoring, labelling and control.

The server reads the published status of the pipelines, writes labels and records through the
pipelines' connectors, and queues commands. The pipelines do not depend on the server.
"""
