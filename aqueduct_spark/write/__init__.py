"""Writing: what Spark calls for it, and the machinery that every sink shares.

What is said to a receiver is the format's (`sink`); here are the routes, the retries, the pool, the
payload formats, and the count of rows that has to come out even.
"""
