# The commands in images that hold nothing else. Without a target it is unthrottle, which without arguments is the demo server:
#
#	docker build -t unthrottle .
#	docker run --rm --cpus 0.5 -p 127.0.0.1:8080:8080 unthrottle
#
# The other one is the webhook of deploy/webhook, and the agent. It renders no charts, which would keep 6 MB more in memory:
#
#	docker build --target kubectl-unthrottle -t kubectl-unthrottle .
FROM golang:1.26 AS source
WORKDIR /src
COPY . .

FROM source AS build-kubectl-unthrottle
RUN CGO_ENABLED=0 go -C cmd/kubectl-unthrottle build -tags norender -trimpath -ldflags "-s -w" -o /kubectl-unthrottle .

FROM scratch AS kubectl-unthrottle
COPY --from=build-kubectl-unthrottle /kubectl-unthrottle /kubectl-unthrottle
USER 65534:65534
EXPOSE 8443 8080
ENTRYPOINT ["/kubectl-unthrottle"]

FROM source AS build
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /unthrottle ./cmd/unthrottle

FROM scratch AS unthrottle
COPY --from=build /unthrottle /unthrottle
USER 65534:65534
EXPOSE 8080
ENTRYPOINT ["/unthrottle"]
CMD ["serve", "--listen", "0.0.0.0:8080"]
