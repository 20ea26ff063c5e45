"""What a scheme is made of: trainers, sampling, coordinates, stages, aggregators, steps. Imports core and below."""
