"""What is measured: operations, and the kernel variants that carry them out.

Installed, this folder is the package ``softmax_roofline``, whose functions are for other programs:

    from softmax_roofline import softmax

``softmax_roofline.softmax`` is then that function; the folder of the same name is still imported
from, ``from softmax_roofline.softmax.online import Online``. In its checkout the folder is
`kernels`, of which the harness imports one variant at a time.
"""

__version__ = "0.1.0"

if __name__ != "kernels":
    from .functions import softmax as softmax
