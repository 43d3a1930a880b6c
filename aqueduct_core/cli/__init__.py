"""The command line: a module for each verb, on the API that programs use. Nothing imports it."""
