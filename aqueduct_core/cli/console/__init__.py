"""How verbs take options and print: for people on a terminal, for scripts in a pipe.

Knows no verb."""
