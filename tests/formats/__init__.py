"""Spools and checkpoints as released versions left them, opened by the code of today.

``make`` wrote what lies in ``listening`` and ``dialling`` with the version that is named in the
test; nothing here is ever written anew, only added to. Spools alone, of each format of records,
are in ``tests/core/spool/fixtures``, offsets alone in ``tests/spark/model/fixtures``.
"""
