"""The weighted sum that attention makes of a row of scores: softmax(x)·v."""
