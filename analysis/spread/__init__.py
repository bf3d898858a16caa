"""Card to card: how far apart cards of one kind lie that measured the same points in one sweep."""

SHORT_US = 20.0  # below it launches and the timer's steps have the larger say
NEEDS = (
    "the same timed points on two or more cards of one kind, in one sweep "
    "(make sweep EXPERIMENT=cards ARGS=gpu.card=0,1)"
)
