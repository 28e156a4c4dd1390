//go:build linux

package clustertest

import (
	"testing"
)

func TestNode(t *testing.T) {
	c := Start(t, Options{ControllerManager: true, Scheduler: true, Nodes: 1})
	c.Import(t, GoImage(t, "localhost/worker:1", "./testdata/worker"))
	must(t, c, "apply", "-f", "testdata/worker.yaml")
	eventually(t, c, "Running", "get", "pod", "worker", "-o", "jsonpath={.status.phase}")
	eventually(t, c, "hello\n", "logs", "worker")
}
