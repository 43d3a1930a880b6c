"""The sink of Aqueduct: which channel a row goes to, who it is, and what a receiver says of it."""
