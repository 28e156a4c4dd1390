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
//   - WaitFor waits for what a cluster does in its own time.
//
// What it does not do: there is no node. Pods are created and scheduled, but no container runs. It takes nothing from the
// cluster that the user's own kubeconfig names, and writes to none of the user's files save the cache.
//
// # Running it
//
// This module is not in the repository's workspace, so that nobody who only builds the library or the command has to
// download Kubernetes. It has a go.work of its own, which the go command takes when it runs here:
//
//	go -C clustertest run ./build           # once
//	go -C clustertest test ./...
//
// Another module that needs a cluster for its tests requires this one and replaces it by its folder, as vmtest does with
// the library. This module requires nothing, so the tests gain no dependency but the standard library.
//
// Where the programs are not built, tests are skipped with the command that builds them; UNTHROTTLE_REQUIRE_CLUSTER=1 makes
// that a failure. A program that was built by one version of Go is not used by tests that another one compiled.
package clustertest
