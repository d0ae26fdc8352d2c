"""Small parts that every layer may use: files, threads, scaling, sampling, scikit-learn's names."""
