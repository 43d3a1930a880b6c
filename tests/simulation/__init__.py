"""Two engines, a hostile link and a virtual clock: whole connections drawn from a seed.

``python -m tests.simulation --seeds 20000`` runs many, ``--first K --seeds 1`` replays one.

| file        | holds                                                                      |
|-------------|----------------------------------------------------------------------------|
| scenario.py | what a seed says: the link, the limits, the operations and their shares     |
| network.py  | the link: streams, datagrams, resets, refusals, loss of the connection      |
| ledger.py   | what each side did and learned, and the promises that tie the two together |
| app.py      | an application at one end: sends, stores late, consumes late, drops         |
| rest.py     | what an engine holds: bounded after every step, nothing in the end          |
| world.py    | the clock and the loop: one seed from the handshake to the end              |
"""
