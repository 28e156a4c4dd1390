package load

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// A grpcStatus is a gRPC status other than success. The answer is complete all the same.
type grpcStatus string

func (s grpcStatus) Error() string { return string(s) }

// answered reports whether the answer to a request with this error is complete.
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

// isCall reports whether a content type is gRPC's. gRPC-Web's is not: it has the status in the body, which is not read here.
func isCall(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind, _, _ = strings.Cut(kind, "+")
	return kind == "application/grpc"
}

// grpcFailure is the failure of a gRPC call, which HTTP calls 200.
func grpcFailure(httpStatus int, contentType, status string) error {
	if !isCall(contentType) || httpStatus >= http.StatusBadRequest {
		return nil
	}
	switch code, err := strconv.Atoi(status); {
	case status == "":
		return grpcStatus("no grpc-status")
	case err != nil || code < 0 || code >= len(grpcNames):
		return grpcStatus("a grpc-status that does not exist")
	case code > 0:
		return grpcStatus(fmt.Sprintf("grpc-status %d %s", code, grpcNames[code]))
	}
	return nil
}
