"""Trackers of others (TensorBoard, MLflow), fed from the rows of rounds.jsonl with what may leave the server."""
