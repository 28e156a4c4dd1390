// Package judge is a wing: a folder of packages, with no code of its own. Its packages answer: what is wrong, and what would help? In go
// facts; out come findings, edits and policies. It changes nothing in a cluster.
//
//	lint    the rules: a file each
//	config  how a project wants its manifests judged, and which findings it lives with
//	fix     manifests with their findings remedied
//	policy  the same rules, in an API server's own language
//	audit   a whole cluster: what is wrong, what it costs
//	prom    what Prometheus counted
package judge
