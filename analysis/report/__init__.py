"""The report: figures, tables, claims, audit, traffic and roofline on one self-contained page."""
