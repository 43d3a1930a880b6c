"""The format ``aqueduct``: its options, columns and sink. All that is Aqueduct's alone is here."""
