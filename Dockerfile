# The command in an image that holds nothing else. Without arguments it is the demo server:
#
#	docker build -t unthrottle .
#	docker run --rm --cpus 0.5 -p 127.0.0.1:8080:8080 unthrottle
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /unthrottle ./cmd/unthrottle

FROM scratch
COPY --from=build /unthrottle /unthrottle
USER 65534:65534
EXPOSE 8080
ENTRYPOINT ["/unthrottle"]
CMD ["serve", "--listen", "0.0.0.0:8080"]
