"""The divergence of a student's logits from a teacher's, and its gradient."""
