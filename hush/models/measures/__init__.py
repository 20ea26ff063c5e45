"""What says how good outputs are, by kind of task; imports nothing above models."""
