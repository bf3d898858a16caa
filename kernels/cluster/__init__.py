"""A row held on chip by a cluster of programs: what every operation's kernel of that kind shares.

`cut` decides how a row is shared out, `ptx` has the messages of its warps, `row` the device code.
Needs Gluon and sm_90 or newer.
"""
