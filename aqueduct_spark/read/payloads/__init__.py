"""Payloads to columns: text, JSON, Arrow.

A payload that does not fit follows the option ``mode``; rows are neither added nor reordered.
"""
