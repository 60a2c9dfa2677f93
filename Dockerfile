# The command, built from these sources: docker build -t redlock .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -o /redlock ./cmd/redlock

# Certificates for rediss://, and nothing else.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /redlock /usr/bin/redlock
ENTRYPOINT ["/usr/bin/redlock"]
