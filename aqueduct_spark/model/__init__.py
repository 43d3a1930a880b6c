"""What goes into checkpoints and between the driver and its tasks: offsets, partitions, schemas.

Values only: each is legal when it exists, pickled or written as JSON; nothing here asks anybody.
"""
