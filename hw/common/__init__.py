"""What every unit has: front end, queues, semaphores, and the shell around its datapath."""
