"""A course of ten stages: students build what the paper describes, in any language, and are graded by bytes.

`program` starts a student's program within limits, `connection` speaks to it, `model_broker` says what a right one
answers, `stages` has a file for each stage, and `grading` runs them and makes verdicts.
"""
