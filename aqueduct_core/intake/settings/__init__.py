"""What an intake is started with: frozen values with a JSON and a TOML form. Of every protocol, and
may know none."""
