"""Whether a folder of rows from someone's card can be taken: its schema, whether it is complete,
what it gives away of the machine, and whether its times are possible.
"""
