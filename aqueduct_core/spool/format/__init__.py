"""What is on the disk: records in segments, the sequences they hold, the catalog.

The page of the format is in `record`. Nothing here owns a directory.
"""
