"""The page of intakes in a real browser, without a display: ``make browser``."""
