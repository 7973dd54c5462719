#!/usr/bin/env bash
# A server whose sandboxes are Docker containers: builds the image if the engine has none, builds
# Threadbox, and serves. Settings are environment variables, as always (docs/operating.md).
#   deploy/quickstart.sh            with the plain image
#   deploy/quickstart.sh --secure   with the smaller one
set -eu
cd "$(dirname "$0")/.."

dockerfile=deploy/Dockerfile.sandbox
case "${1:-}" in
  --secure) dockerfile=deploy/Dockerfile.secure ;;
  "") ;;
  *)
    echo "usage: deploy/quickstart.sh [--secure]" >&2
    exit 2
    ;;
esac

if ! command -v docker >/dev/null; then
  echo "quickstart: there is no docker: install docker.io, or Docker's own packages" >&2
  exit 1
fi
if ! docker info >/dev/null 2>&1; then
  echo "quickstart: the engine does not answer: start it (systemctl start docker), and be root or" \
    "in the group docker" >&2
  exit 1
fi

image="${CONTAINER_IMAGE:-sandbox-secure:latest}"
if ! docker image inspect "$image" >/dev/null 2>&1; then
  echo "quickstart: building $image from $dockerfile"
  docker build -t "$image" -f "$dockerfile" deploy
fi

./run --build-only
export SANDBOX_PROVIDER=docker CONTAINER_IMAGE="$image"
exec build/threadbox serve
