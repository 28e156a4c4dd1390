// Package facts is a wing: a folder of packages, with no code of its own. Its packages answer: what do manifests, images and a cluster say
// about programs and their CPU? In go files, registries and API servers; out come workloads as data. It judges nothing.
//
//	workload  a workload's CPU, as data
//	advice    which CPU limit a tool recommends for a container
//	remedy    what to do about a variable, as data
//	render    what charts and kustomizations say once they are rendered
//	manifest  which workloads files hold, and where each fact is
//	binary    what is known about the program of a container
//	registry  which program is in an image
//	forecast  which GOMAXPROCS a program will have there
//	cluster   the workloads of a cluster
//	pods      the pods of a node, with their owners and images
//	gitops    which object makes another from Git, and from where
//	permit    who asks an agent, and whether they may
package facts
