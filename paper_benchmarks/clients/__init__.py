"""The clients of each system, run in processes of their own by `Worker`, and `measure`, which has them do a job."""
