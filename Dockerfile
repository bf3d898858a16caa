# The harness on a CPU: Triton's kernels run in its interpreter, and all that is recorded can be drawn.
#   docker build -t softmax-roofline .
#   docker run --rm -v "$PWD/outputs:/softmax-roofline/outputs" softmax-roofline make sweep EXPERIMENT=smoke
# PyTorch publishes wheels for CPUs, some gigabytes smaller, on an index of its own:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=<that index> -t softmax-roofline .
# For a GPU, without that argument, for torch's other wheels bring CUDA's libraries; run with --gpus all:
#   docker build --build-arg BASE=nvidia/cuda:13.0.1-base-ubuntu24.04 -t softmax-roofline:cuda .
ARG BASE=python:3.12-slim
FROM ${BASE}
ARG PIP_EXTRA_INDEX_URL=
ENV PIP_NO_CACHE_DIR=1
# g++ is for torch.compile and Triton's launchers, git for the commit that every row names
RUN apt-get update && apt-get install -y --no-install-recommends g++ git make \
        $(command -v python3 >/dev/null || echo python3-dev python3-venv) \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /softmax-roofline
COPY Makefile pyproject.toml constraints.txt ./
COPY experiments/environment.py experiments/
RUN make .venv/.ready
COPY . .
CMD ["make"]
