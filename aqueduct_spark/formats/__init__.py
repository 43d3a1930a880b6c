"""What makes a protocol a format of Spark: the port (`description`), and one folder per format.

Planning, launching, offsets, reading and the sink's machinery work from a description and name no
protocol. A format that lives elsewhere needs a description and a data source of its own, and
nothing here.
"""
