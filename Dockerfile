# docker build -t thalweg . && docker run -p 8080:8080 -v ./site.cfg:/etc/thalweg/thalweg.cfg:ro thalweg
FROM debian:trixie-slim AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends build-essential ca-certificates cmake curl \
    && rm -rf /var/lib/apt/lists/*
RUN curl -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
WORKDIR /src
COPY . .
RUN . "$HOME/.cargo/env" && cargo build --release -p thalweg

FROM debian:trixie-slim
RUN useradd --system --no-create-home thalweg
COPY --from=build /src/target/release/thalweg /usr/sbin/thalweg
# A link, for scripts and images that start HAProxy.
RUN ln -s thalweg /usr/sbin/haproxy
USER thalweg
# Finish what is in progress, then leave.
STOPSIGNAL SIGUSR1
# The configuration is mounted: there is none in the image.
ENTRYPOINT ["/usr/sbin/thalweg"]
CMD ["-W", "-db", "-f", "/etc/thalweg/thalweg.cfg"]
