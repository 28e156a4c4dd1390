package load

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// A grpcStatus is a gRPC status that is no success. The answer is complete all the same.
type grpcStatus string

func (s grpcStatus) Error() string { return string(s) }

// answered reports whether an answer is complete, of a request with this error.
func answered(err error) bool {
	_, call := err.(grpcStatus)
	return err == nil || call
}

// grpcNames are the names of gRPC's statuses.
var grpcNames = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

// grpcFailure is the failure of a gRPC call, which HTTP calls 200. Its status is in the trailers of an answer, or in its head where there
// is no message. gRPC-Web has it in the body, which nobody reads here.
func grpcFailure(res *http.Response) error {
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if kind, _, _ = strings.Cut(kind, "+"); kind != "application/grpc" || res.StatusCode >= http.StatusBadRequest {
		return nil
	}
	text := res.Trailer.Get("Grpc-Status")
	if text == "" {
		text = res.Header.Get("Grpc-Status")
	}
	switch status, err := strconv.Atoi(text); {
	case text == "":
		return grpcStatus("no grpc-status")
	case err != nil || status < 0 || status >= len(grpcNames):
		return grpcStatus("a grpc-status that does not exist")
	case status > 0:
		return grpcStatus(fmt.Sprintf("grpc-status %d %s", status, grpcNames[status]))
	}
	return nil
}
