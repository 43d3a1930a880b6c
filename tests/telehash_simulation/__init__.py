"""Two ends of Telehash over a link that delays, loses, doubles and reorders, on a virtual clock.

Everything follows from the seed: applications, the path, when lines end, and whether the other end
is ours, or does as telehash-js or telehash-c do. ``make simulate`` runs 20,000 seeds.
"""
