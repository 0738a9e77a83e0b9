"""Several processes that train together: started by torchrun's agent in the process of a trial, one outcome for all."""
