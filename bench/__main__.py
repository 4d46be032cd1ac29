"""Runs every benchmark, one after the other."""

from bench import envelope

if __name__ == "__main__":
    for benchmark in (envelope,):
        benchmark.main()
