// Package clustertest answers: what does a real Kubernetes say? Does an API server take what was generated, does a policy
// do to a pod what it should, do a Deployment's pods come to be? In go a test and options; out comes a cluster that is the
// test's own, a kubeconfig and a kubectl for it. When the test ends the cluster is gone, also when the test was killed.
//
// The programs are Kubernetes' and etcd's own, built from their Go modules and kept in the user's cache. The first build
// takes minutes and some 2 GB of memory; then a cluster starts in seconds. The pieces:
//
//   - Folder kubernetes is a module that requires the programs, and holds nothing else. Its file update writes its go.mod for
//     another version; the constants of this package have to follow.
//   - Command build builds what is not in the cache yet.
//   - Start starts etcd and kube-apiserver on free ports of the loopback interface, and the controller manager and the
//     scheduler if they are asked for. Certificates, keys and a token are made for each run.
//   - Options.Nodes real nodes are started if they are asked for, by the command node: a kubelet with a containerd of its own,
//     in a file system, a network and control groups that the machine sees nothing of but the processes.
//   - WaitFor waits for what a cluster does in its own time, WaitPods for pods.
//
// What it does not do: without Options.Nodes no container runs. It takes nothing from the cluster that the user's own
// kubeconfig names, and writes to none of the user's files except the cache.
//
// # Nodes
//
//	c := clustertest.Start(t, clustertest.Options{ControllerManager: true, Scheduler: true, Nodes: 2})
//	c.Import(t, clustertest.GoImage(t, "localhost/server:1", "./testdata/server")) // pods say image: localhost/server:1
//	c.Kubectl("apply", "-f", "testdata/server.yaml")
//	pods := c.WaitPods(t, "default", "app=server", 2, "Running")
//	text, err := c.Logs("default", pods[0].Name, "server")
//	body, err := c.Proxy("default", pods[0].Name, 8080, "/metrics") // or http://IP:8080 of the pod, without the API server
//	c.Nodes[0].StopKubelet()
//
// A node needs root, the programs containerd, runc, ip and nsenter, and the controllers of cgroup v1; where one of them is
// missing the test is skipped with it. There is no registry: an image is what Import was given, so a pod's imagePullPolicy
// must not be Always, which is the default for the tag latest. There is no DNS and no kube-proxy: the only service that can be
// reached is "kubernetes", by which programs in pods find the API server. Pods have addresses that the test reaches, 29 on a
// node, and with hostNetwork the node's. With hostPID they see the node's processes, not the machine's, and hostPath is the
// node's file system. Node.Group is where this machine has the node's control groups; seen from inside they have the paths of
// any node, /kubepods/burstable/….
//
// # Running it
//
//	go -C cmd/kubectl-unthrottle run ./clustertest/build           # once
//	go -C cmd/kubectl-unthrottle test ./clustertest/...
//
// It imports only the standard library. What Kubernetes is built from is a module of its own, so that building only the library
// or a command doesn't download it.
//
// Where the programs are not built, tests are skipped with the command that builds them; UNTHROTTLE_REQUIRE_CLUSTER=1 makes
// that a failure, and 0 skips them all. A program that was built by one version of Go is not used by tests that another one compiled.
package clustertest
