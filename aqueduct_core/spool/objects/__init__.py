"""The spool on object storage: groups are immutable objects, and an ack means that the store has
one. Only `obstore_store` knows a library; what decides is pure, and yields operations of a store.
"""
