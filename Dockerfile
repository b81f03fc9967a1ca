# The server as an image: `docker build -t countersign .`; compose.yaml runs three of it. docs/operations.md has the rest.

FROM node:22-bookworm-slim AS console
WORKDIR /src/web
COPY web ./
# Its tests are not run here, so their browser is not needed.
RUN PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci && npm run build

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
RUN apt-get update && apt-get install -y --no-install-recommends cmake g++ make && rm -rf /var/lib/apt/lists/*
COPY . .
COPY --from=console /src/web/console/dist web/console/dist
RUN cargo build --release --locked -p countersign-cli \
    && sh deploy/share.sh target/release/countersign target/share

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="countersign" \
    org.opencontainers.image.description="AI agents whose dangerous tool calls wait for a person" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.licenses="MIT OR Apache-2.0"
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin countersign \
    && install -d -o countersign -g countersign -m 700 /var/lib/countersign
COPY --from=build /src/target/release/countersign /usr/local/bin/countersign
COPY --from=build /src/target/share /usr/local/share
USER 10001
WORKDIR /var/lib/countersign
EXPOSE 7410
# SIGTERM lets running tools end for ten seconds, and hands sessions over to other nodes.
STOPSIGNAL SIGTERM
ENTRYPOINT ["countersign"]
CMD ["serve", "--config", "/etc/countersign/countersign.toml"]
