# `admire serve` with the embedded profile, on a CPU:
#   docker build -t admire .
#   docker run -e ADMIRE_TOKEN=… -p 127.0.0.1:8765:8765 -v admire:/models admire
# Then open http://127.0.0.1:8765/?token=…
FROM python:3.11-slim
# llama.cpp needs OpenMP.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,target=/src,rw pip install --no-cache-dir '/src[embedded,serve]'
RUN useradd --create-home admire && install -d -o admire /models
USER admire
WORKDIR /home/admire
# The chat model as it is put together, replies and vectors, and what the hub sends.
ENV ADMIRE_CACHE=/models/admire HF_HOME=/models/huggingface
VOLUME /models
EXPOSE 8765
ENTRYPOINT ["admire", "serve", "--host", "0.0.0.0"]
