"""Options as users write them, to typed values; each refusal names the option and what to do.

One row for each option is all there is of its name, default and text. Asks nobody, and opens no
file but those of secrets, when these are used.
"""
