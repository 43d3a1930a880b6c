"""What an intake is told when it starts: frozen values with a JSON and a TOML form."""
