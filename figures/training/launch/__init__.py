"""The paper's own setting (Qwen2.5-7B on DeepScaleR, 16 GPUs) with the adapter, for TRL and verl.

The values are those of ``figures/published/hyperparameters.csv``; tests parse both files against
the trainers' own configuration classes. They were not run: that takes 16 H100.
"""
