"""Operations and their kernel variants: the code that the harness measures.

Installed, this folder is the package ``softmax_roofline``, whose functions are for other programs:

    from softmax_roofline import cross_entropy, softmax

``softmax_roofline.softmax`` is then that function, and so for other operations; the folder of
the same name is still imported from, ``from softmax_roofline.softmax.online import Online``. In its
checkout the folder is `kernels`, of which the harness imports one variant at a time.
"""

__version__ = "0.1.0"

if __name__ != "kernels":
    from .cross_entropy.functions import cross_entropy as cross_entropy
    from .functions import softmax as softmax
    from .kl_div.functions import kl_div as kl_div
    from .log_softmax.functions import log_softmax as log_softmax
    from .log_softmax.functions import logprob_entropy as logprob_entropy
    from .log_softmax.functions import logsumexp as logsumexp
