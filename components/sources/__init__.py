"""Where models and questions come from: the hub, files here or in a bucket, and the tiny ones that are made on the spot.

Shared by `prepare`, which checks and pins them before anything is spent, and `download`, which fetches them.
"""
